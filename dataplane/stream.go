// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// recheckAfter, recheckSpread and recheckAge bound how long a request goes on before its
	// caller's right is looked at again: by an answer of kcp that is at most recheckAge old, so
	// that a withdrawn right ends a stream within 30 s. The spread keeps streams that began
	// together from asking together, and the age lets a caller's streams share an answer.
	recheckAfter  = 15 * time.Second
	recheckSpread = 10 * time.Second
	recheckAge    = 5 * time.Second
)

var errCut = errors.New("the caller's right, or the instance, has ended")

// supervise ends a request that lasts when the caller's right or the instance ends; a stream also
// when the server drains, so that it is opened elsewhere, and at the ceiling. It looks after plain
// requests too, because server-sent events and long downloads look like them at the beginning.
// The returned function must be called when the request has ended. There is no goroutine per
// request: timers run what there is to do.
func (h *handler) supervise(ctx context.Context, cancel context.CancelCauseFunc, x *exchange, at *place) (stop func()) {
	c := &rechecker{h: h, ctx: ctx, cancel: cancel, question: x.question, route: x.route, kind: x.kind, id: at.id, lastGood: time.Now()}
	c.begin()
	if !x.isStream {
		return c.stop
	}
	longest := h.settings.limits().StreamDuration
	ceiling := time.AfterFunc(longest, func() {
		cancel(unavailable(causeStreamCeiling, fmt.Sprintf("the stream has lasted %s, which is its limit: open it again", longest), 0, nil))
	})
	undrain := context.AfterFunc(h.draining, func() {
		cancel(unavailable(causeDraining, "this server is shutting down: open the stream again", 0, nil))
	})
	return func() {
		c.stop()
		ceiling.Stop()
		undrain()
	}
}

// rechecker looks at a request's right again and again.
type rechecker struct {
	h        *handler
	ctx      context.Context //nolint:containedctx // the request's life
	cancel   context.CancelCauseFunc
	question question
	route    route
	kind     *kind
	id       placement.ID
	// lastGood is when the right stood last; only check uses it, which runs once at a time.
	lastGood time.Time

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	// checking is set while check runs, and again when it has to run once more after that.
	checking, again bool
	// since is the last event after which an older answer of kcp does not count.
	since time.Time
}

// begin has the request looked at from time to time, and when something happens.
func (c *rechecker) begin() {
	c.mu.Lock()
	c.timer = time.AfterFunc(jittered(), c.check)
	c.mu.Unlock()
	c.h.live.add(c)
}

func (c *rechecker) stop() {
	c.h.live.remove(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
}

// now has the request looked at at once, with answers that kcp gave after a point in time.
func (c *rechecker) now(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = since
	if c.checking {
		c.again = true
	} else if !c.stopped {
		c.timer.Reset(0)
	}
}

func jittered() time.Duration { return recheckAfter + rand.N(recheckSpread) } //nolint:gosec // jitter

// check runs on a timer's goroutine.
func (c *rechecker) check() {
	c.mu.Lock()
	if c.stopped || c.checking {
		c.mu.Unlock()
		return
	}
	c.checking = true
	oldest := time.Now().Add(-recheckAge)
	if c.since.After(oldest) {
		oldest = c.since
	}
	c.mu.Unlock()

	if cut := c.verdict(c.stillAllowed(oldest)); cut != nil {
		c.cancel(cut)
		return // checking stays set: there is nothing left to check
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	after := jittered()
	if c.again {
		after = 0
	}
	c.checking, c.again = false, false
	if !c.stopped {
		c.timer.Reset(after)
	}
}

// verdict turns what was found into the reason for a cut; nil lets the request go on. A kcp that
// does not answer, or a caller who asks too much elsewhere, ends nothing for a while.
func (c *rechecker) verdict(refused *refusal) *refusal {
	if refused == nil {
		c.lastGood = time.Now()
		return nil
	}
	cut := forbidden()
	cut.cause, cut.err = causeCut, fmt.Errorf("%w: %w", errCut, refused)
	switch {
	case refused.code >= http.StatusInternalServerError || refused.code == http.StatusTooManyRequests:
		tolerance := c.h.settings.limits().KcpTolerance
		if time.Since(c.lastGood) < tolerance {
			return nil
		}
		cut = unavailable(causeKcpSilent, fmt.Sprintf("the workspace's API has not said for %s whether you still may: open the stream again", tolerance), 0, refused)
	case refused.code == http.StatusNotFound || refused.code == http.StatusConflict:
		cut.cause = causeInstanceEnded
	}
	return cut
}

func (c *rechecker) stillAllowed(oldest time.Time) *refusal {
	g, refused := c.h.authorizer.since(c.ctx, c.question, oldest)
	if refused != nil {
		return refused
	}
	at, refused := c.h.placer.find(c.kind, c.route, g)
	if mayBeStale(g, refused) {
		if g, refused = c.h.authorizer.again(c.ctx, c.question); refused != nil {
			return refused
		}
		at, refused = c.h.placer.find(c.kind, c.route, g)
	}
	if refused != nil {
		return refused
	}
	if at.id != c.id {
		return notFound(causeNotPlaced) // the name is another instance's now
	}
	return nil
}
