// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// Lines per second, and at once, of requests that nobody known has made, and of those that
	// were refused to somebody known. Anybody can make the first and any tenant the second, as
	// many as the network carries: they must not fill the disk, and the first must not hide
	// the second. What was let through has a line always.
	anonymousLineRate, anonymousLineBurst = 20, 200
	refusedLineRate, refusedLineBurst     = 100, 1000
)

// auditor writes what was done and who did it: one line per request, and one more when a stream
// begins. A nil auditor writes nothing and costs nothing.
type auditor struct {
	writer    *auditWriter
	names     *names
	anonymous *rate.Limiter
	refused   *rate.Limiter
	buffers   sync.Pool
	// open counts lines that wait for a name.
	open tally
}

func newAuditor(opts Options, whoAmI whoAmI, m *metrics) (*auditor, error) {
	if opts.AuditLog == "" {
		return nil, nil //nolint:nilnil // a nil auditor is one that is off
	}
	out, err := openAuditLog(opts)
	if err != nil {
		return nil, err
	}
	names, err := newNames(whoAmI, m)
	if err != nil {
		return nil, err
	}
	return &auditor{
		writer: newAuditWriter(out, m, opts.Logger), names: names,
		anonymous: rate.NewLimiter(anonymousLineRate, anonymousLineBurst),
		refused:   rate.NewLimiter(refusedLineRate, refusedLineBurst),
		buffers:   sync.Pool{New: func() any { return new(make([]byte, 0, 1024)) }},
	}, nil
}

// run writes lines until close is called.
func (a *auditor) run() {
	if a != nil {
		a.writer.run()
	}
}

// begin gives the request its id, which the caller is told too.
func (a *auditor) begin(x *exchange) {
	if a != nil {
		x.auditID = newAuditID()
	}
}

// started notes that a stream goes to its pod.
func (a *auditor) started(x *exchange) {
	if a == nil || !x.isStream {
		return
	}
	x.auditStarted = true
	a.write(x, newAuditRecord(x, stageStart, time.Now(), 0))
}

// ended notes what came of a request.
func (a *auditor) ended(x *exchange, took time.Duration) {
	if a == nil {
		return
	}
	if limiter := a.limiter(x); limiter != nil && !limiter.Allow() {
		a.writer.drop(droppedRate)
		return
	}
	a.write(x, newAuditRecord(x, stageEnd, time.Now(), took))
}

// limiter is the one that a request's line must pass; nil for none.
func (a *auditor) limiter(x *exchange) *rate.Limiter {
	switch code := x.code(); {
	case x.auditStarted || !x.refused:
		return nil
	case code == http.StatusForbidden || code == http.StatusNotFound || x.id.Cluster != "":
		return a.refused
	}
	return a.anonymous
}

// write writes a line as soon as it is known who the caller is. Requests do not wait for that.
func (a *auditor) write(x *exchange, record auditRecord) {
	switch {
	case x.question.caller.IsZero() || record.code == http.StatusUnauthorized:
		a.emit(&record, auditUser{unknown: unknownNoIdentity})
	case record.stage == stageEnd && x.refused && a.limiter(x) == a.anonymous:
		// kcp has not accepted the token: another question would only be another refusal.
		a.emit(&record, auditUser{unknown: unknownNotAsked})
	default:
		key := cacheKey(x.question.caller.CredentialKey())
		if user, ok := a.names.find(key); ok {
			a.emit(&record, user)
			return
		}
		a.writeLater(x, key, record)
	}
}

// writeLater writes a line when kcp has said who the caller is.
func (a *auditor) writeLater(x *exchange, key cacheKey, record auditRecord) {
	a.open.begin()
	a.names.tell(key, x.question.caller, x.route.workspace, func(user auditUser) {
		a.emit(&record, user)
		a.open.end()
	})
}

func (a *auditor) emit(record *auditRecord, user auditUser) {
	buffer, _ := a.buffers.Get().(*[]byte)
	*buffer = record.appendTo((*buffer)[:0], user)
	a.writer.add(*buffer)
	a.buffers.Put(buffer)
}

// close waits, for a bounded time, until the last lines are written.
func (a *auditor) close() error {
	if a == nil {
		return nil
	}
	a.open.wait(auditFlushTimeout)
	return a.writer.close()
}

// tally counts what is under way, and can be waited for. Unlike a sync.WaitGroup it may be
// counted up while somebody waits.
type tally struct {
	n       atomic.Int64
	waiting atomic.Pointer[chan struct{}]
}

func (t *tally) begin() { t.n.Add(1) }

func (t *tally) end() {
	if t.n.Add(-1) > 0 {
		return
	}
	if waiting := t.waiting.Load(); waiting != nil {
		select {
		case *waiting <- struct{}{}:
		default:
		}
	}
}

// wait waits until nothing is under way, or until the timeout.
func (t *tally) wait(timeout time.Duration) {
	zero := make(chan struct{}, 1)
	t.waiting.Store(&zero)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for t.n.Load() > 0 {
		select {
		case <-zero:
		case <-timer.C:
			return
		}
	}
}
