// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/sandbar-dev/sandbar/dataplane/access"
)

const (
	// Lines per second, and at once, of requests that nobody known has made, and of those that
	// were refused to somebody known. Anybody can make the first and any tenant the second, as
	// many as the network carries: they must not fill the disk, and the first must not hide
	// the second. What was let through has a line always.
	anonymousLineRate, anonymousLineBurst = 20, 200
	refusedLineRate, refusedLineBurst     = 100, 1000
	// callerLineShare is which part of these one address, or one caller, may have, so that the lines
	// of one do not hide another's.
	callerLineShare = 4
)

// Auditor writes what was done and who did it: one line per request, and one more when a stream
// begins. A nil auditor writes nothing and costs nothing.
type Auditor struct {
	writer    *auditWriter
	Names     *names
	anonymous *lineLimiter
	refused   *lineLimiter
	buffers   sync.Pool
	// open counts lines that wait for a name.
	open Tally
}

// NewAuditor opens the audit log; nil if there is none. whoAmI names callers for its lines.
func NewAuditor(opts Options, whoAmI access.WhoAmI, m *Metrics) (*Auditor, error) {
	if opts.AuditLog == "" {
		return nil, nil //nolint:nilnil // a nil auditor is one that is off
	}
	out, err := openAuditLog(opts)
	if err != nil {
		return nil, err
	}
	names, err := newNames(whoAmI, m.Access)
	if err != nil {
		return nil, err
	}
	anonymous, err := newLineLimiter(anonymousLineRate, anonymousLineBurst)
	if err != nil {
		return nil, err
	}
	refused, err := newLineLimiter(refusedLineRate, refusedLineBurst)
	if err != nil {
		return nil, err
	}
	return &Auditor{
		writer: newAuditWriter(out, m, opts.Logger), Names: names, anonymous: anonymous, refused: refused,
		buffers: sync.Pool{New: func() any { return new(make([]byte, 0, 1024)) }},
	}, nil
}

// Run writes lines until close is called.
func (a *Auditor) Run() {
	if a != nil {
		a.writer.run()
	}
}

// Begin returns an id for a request, which the caller is told too; "" if nothing is audited.
func (a *Auditor) Begin() string {
	if a == nil {
		return ""
	}
	return newAuditID()
}

// Started notes that a stream goes to its pod, and reports whether that is a line.
func (a *Auditor) Started(o *Outcome) bool {
	if a == nil || !o.IsStream {
		return false
	}
	a.write(o, newAuditRecord(o, StageStart, time.Now()))
	return true
}

// Ended notes what came of a request.
func (a *Auditor) Ended(o *Outcome) {
	if a == nil {
		return
	}
	if limiter := a.limiter(o); limiter != nil && !limiter.allow(a.lineOf(o)) {
		a.writer.drop(droppedRate)
		return
	}
	a.write(o, newAuditRecord(o, StageEnd, time.Now()))
}

// limiter is the one that a request's line must pass; nil for none.
func (a *Auditor) limiter(o *Outcome) *lineLimiter {
	switch code := o.Code; {
	case o.AuditStarted || !o.Refused:
		return nil
	case code == http.StatusForbidden || code == http.StatusNotFound || o.Owner.Cluster != "":
		return a.refused
	}
	return a.anonymous
}

// lineOf is who a request's line counts for: the user, if it is known, or the address.
func (a *Auditor) lineOf(o *Outcome) access.CallerKey {
	if user, ok := a.Names.find(access.Key(o.Caller.CredentialKey())); ok && user.unknown == "" {
		return user.caller
	}
	return access.CountedAddress(o.Request.RemoteAddr).Key
}

// lineLimiter bounds lines, in all and of each caller.
type lineLimiter struct {
	all       *rate.Limiter
	callers   *lru.Cache[access.CallerKey, *rate.Limiter]
	perSecond int
	burst     int
}

func newLineLimiter(perSecond, burst int) (*lineLimiter, error) {
	callers, err := lru.New[access.CallerKey, *rate.Limiter](access.CallerEntries)
	if err != nil {
		return nil, fmt.Errorf("making the limits of audit lines: %w", err)
	}
	return &lineLimiter{
		all: rate.NewLimiter(rate.Limit(perSecond), burst), callers: callers,
		perSecond: perSecond / callerLineShare, burst: burst / callerLineShare,
	}, nil
}

func (l *lineLimiter) allow(caller access.CallerKey) bool {
	// The caller's first: what is too much of one must not take from the others.
	return access.BucketOf(l.callers, caller, l.perSecond, l.burst).Allow() && l.all.Allow()
}

// write writes a line as soon as it is known who the caller is. Requests do not wait for that.
func (a *Auditor) write(o *Outcome, record auditRecord) {
	switch {
	case o.Caller.IsZero() || record.code == http.StatusUnauthorized:
		a.emit(&record, auditUser{unknown: UnknownNoIdentity})
	case record.stage == StageEnd && o.Refused && a.limiter(o) == a.anonymous:
		// kcp has not accepted the token: another question would only be another refusal.
		a.emit(&record, auditUser{unknown: unknownNotAsked})
	default:
		key := access.Key(o.Caller.CredentialKey())
		if user, ok := a.Names.find(key); ok {
			a.emit(&record, user)
			return
		}
		a.writeLater(o, key, record)
	}
}

// writeLater writes a line when kcp has said who the caller is.
func (a *Auditor) writeLater(o *Outcome, key access.Key, record auditRecord) {
	a.open.Begin()
	a.Names.tell(key, o.Caller, o.Route.Workspace, func(user auditUser) {
		a.emit(&record, user)
		a.open.End()
	})
}

func (a *Auditor) emit(record *auditRecord, user auditUser) {
	buffer, _ := a.buffers.Get().(*[]byte)
	*buffer = record.appendTo((*buffer)[:0], user)
	a.writer.add(*buffer)
	a.buffers.Put(buffer)
}

// Close waits, for a bounded time, until the last lines are written.
func (a *Auditor) Close() error {
	if a == nil {
		return nil
	}
	a.open.Wait(auditFlushTimeout)
	return a.writer.close()
}

// Tally counts what is under way, and can be waited for. Unlike a sync.WaitGroup it may be
// counted up while somebody waits.
type Tally struct {
	n       atomic.Int64
	waiting atomic.Pointer[chan struct{}]
}

// Begin counts up.
func (t *Tally) Begin() { t.n.Add(1) }

// End counts down.
func (t *Tally) End() {
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

// UnderWay counts what has begun and not ended.
func (t *Tally) UnderWay() int64 { return t.n.Load() }

// Wait waits until nothing is under way, or until the timeout.
func (t *Tally) Wait(timeout time.Duration) {
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
