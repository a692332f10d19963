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
	"sync/atomic"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// recheckAfter and recheckSpread bound how long a request goes on before its caller's right is
	// looked at again, by an answer of kcp that is at most recheckAge old, so that a withdrawn right
	// ends a stream within 30 s. The spread keeps streams that began together from asking together.
	recheckAfter  = 15 * time.Second
	recheckSpread = 10 * time.Second
)

var errCut = errors.New("the caller's right, or the instance, has ended")

// supervise ends a request whose pod does not begin its answer in time, and one that lasts when the
// caller's right or the instance ends, or when its use is not on record any more; a stream also when
// the server drains, so that it is opened elsewhere, and at the ceiling. It looks after plain requests too, because server-sent events and
// long downloads look like them at the beginning. The returned function must be called when the
// request has ended. There is no goroutine per request: one timer runs what there is to do.
func (h *handler) supervise(ctx context.Context, cancel context.CancelCauseFunc, x *exchange, at *locate.Place) (stop func()) {
	c := &x.supervisor
	c.h, c.x, c.ctx, c.cancel, c.id, c.owner, c.lastGood = h, x, ctx, cancel, at.ID.ID, at.Owner, x.call.Sent
	limits := h.settings.limits()
	if !x.isStream || access.IsUpgrade(x.request.Header) {
		c.patience = limits.ResponseTimeout
		c.answerBy.Store(x.call.Sent.Add(c.patience).UnixNano())
	}
	if !x.isStream {
		c.begin(x.call.Sent)
		return c.stop
	}
	c.longest = limits.StreamDuration
	if x.longest > 0 {
		c.longest = min(c.longest, x.longest)
	}
	c.ceiling = x.call.Sent.Add(c.longest)
	c.begin(x.call.Sent)
	undrain := context.AfterFunc(h.draining, func() {
		cancel(refusal.Unavailable(refusal.CauseDraining, "this server is shutting down: open the stream again", 0, nil))
	})
	return func() {
		c.stop()
		undrain()
	}
}

// supervisor looks at a request's limits and, again and again, at its right.
type supervisor struct {
	h *handler
	// x is read for what does not change any more: its question, route and kind.
	x      *exchange
	ctx    context.Context //nolint:containedctx // the request's life
	cancel context.CancelCauseFunc
	id     placement.ID
	owner  placement.Owner
	// lastGood is when the right stood last; only check uses it, which runs once at a time.
	lastGood time.Time
	// answerBy is until when the pod must begin its answer, in Unix nanoseconds; zero for no
	// limit, and once it has begun. patience is how long that is.
	answerBy atomic.Int64
	patience time.Duration
	// ceiling is when a stream ends after it has lasted for longest; zero for no limit.
	ceiling time.Time
	longest time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	// due is when the right is looked at next.
	due time.Time
	// readEnd is when the token is read for its end, and zero once it was; tokenEnd is that end,
	// zero if it has none.
	readEnd, tokenEnd time.Time
	// checking is set while check runs, and again when it has to run once more after that.
	checking, again bool
	// since is the last event after which an older answer of kcp does not count.
	since time.Time

	// before and behind are the others of the same logical cluster; see live.
	before, behind *supervisor
}

// begin has the request looked at from time to time, and when something happens.
func (c *supervisor) begin(now time.Time) {
	c.mu.Lock()
	c.due, c.readEnd = now.Add(jittered()), now.Add(readEndAfter)
	c.timer = time.AfterFunc(c.next().Sub(now), c.tick)
	c.mu.Unlock()
	c.h.live.add(c)
}

func (c *supervisor) stop() {
	c.h.live.remove(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
}

// answered ends the wait for the pod's answer.
func (c *supervisor) answered() { c.answerBy.Store(0) }

// asked begins the wait anew, for a pod that is asked now.
func (c *supervisor) asked(now time.Time) {
	if c.patience == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answerBy.Store(now.Add(c.patience).UnixNano())
	c.timer.Reset(time.Until(c.next()))
}

// progress gives the pod its time anew: it has just got some more of the request. Never once it
// has answered, or a long answer would be cut.
func (c *supervisor) Progress() {
	if by := c.answerBy.Load(); by != 0 {
		c.answerBy.CompareAndSwap(by, time.Now().Add(c.patience).UnixNano())
	}
}

// now has the request looked at at once, with answers that kcp gave after a point in time.
func (c *supervisor) now(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = since
	if c.checking {
		c.again = true
	} else if !c.stopped {
		c.due = time.Now()
		c.timer.Reset(0)
	}
}

// placementEnds ends the request, because the instance's placement ends.
func (c *supervisor) placementEnds() { c.cancel(c.verdict(refusal.NotFound(refusal.CauseNotPlaced))) }

func jittered() time.Duration { return recheckAfter + rand.N(recheckSpread) } //nolint:gosec // jitter

// next is when there is something to do. c.mu is held.
func (c *supervisor) next() time.Time {
	next := c.due
	if c.checking { // until that has ended there are only limits to look at
		next = time.Now().Add(recheckAfter)
	}
	if !c.readEnd.IsZero() && next.After(c.readEnd) {
		next = c.readEnd
	}
	if by := c.answerBy.Load(); by != 0 && next.UnixNano() > by {
		next = time.Unix(0, by)
	}
	if !c.ceiling.IsZero() && next.After(c.ceiling) {
		next = c.ceiling
	}
	if limit := time.Now().Add(c.left(time.Now())); next.After(limit) {
		next = limit
	}
	return next
}

// left is for how much longer the request may go on if nothing is renewed: the replica's Lease, which
// lets it serve at all, and the record of the instance's use.
func (c *supervisor) left(now time.Time) time.Duration {
	left := c.h.fence.Left(now)
	if c.x.use != nil {
		left = min(left, c.x.use.Left(now))
	}
	return left
}

// tick runs on a timer's goroutine.
func (c *supervisor) tick() {
	now := time.Now()
	if cut := c.overdue(now); cut != nil {
		c.cancel(cut)
		return
	}
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return
	}
	if !c.readEnd.IsZero() && !now.Before(c.readEnd) {
		began := c.readEnd.Add(-readEndAfter)
		c.tokenEnd, c.readEnd = c.x.question.Caller.TokenEnd(), time.Time{}
		c.due = c.orAtEnd(c.due, began)
	}
	look := !c.checking && !now.Before(c.due)
	c.checking = c.checking || look
	oldest := now.Add(-access.RecheckAge)
	if c.since.After(oldest) {
		oldest = c.since
	}
	if last, _ := endLooks(c.tokenEnd, now); last.After(oldest) {
		oldest = last // what kcp said before the token's end is no answer
	}
	c.timer.Reset(time.Until(c.next()))
	c.mu.Unlock()
	if look {
		c.check(now, oldest)
	}
}

// orAtEnd is when to look next: at due, or at the first moment after the last look that the
// token's end adds, if that is sooner. c.mu is held.
func (c *supervisor) orAtEnd(due, looked time.Time) time.Time {
	if _, next := endLooks(c.tokenEnd, looked); !next.IsZero() && next.Before(due) {
		return next
	}
	return due
}

// overdue tells which limit in time has been reached.
func (c *supervisor) overdue(now time.Time) *refusal.Error {
	if by := c.answerBy.Load(); by != 0 && now.UnixNano() >= by {
		return refusal.GatewayTimeout(c.patience, nil)
	}
	if !c.ceiling.IsZero() && !now.Before(c.ceiling) {
		return refusal.Unavailable(refusal.CauseStreamCeiling, fmt.Sprintf("the stream has lasted %s, which is its limit: open it again", c.longest), 0, nil)
	}
	// What goes on unseen by the controllers would be put to sleep or deleted under its user.
	switch {
	case !c.h.fence.Open(now):
		return refusal.Fenced()
	case c.left(now) <= 0:
		return refusal.Unrecorded()
	}
	return nil
}

func (c *supervisor) check(now, oldest time.Time) {
	if cut := c.verdict(c.stillAllowed(oldest)); cut != nil {
		c.cancel(cut)
		return // checking stays set: there is nothing left to check
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = time.Now()
	if !c.again {
		c.due = c.orAtEnd(c.due.Add(jittered()), now)
	}
	c.checking, c.again = false, false
	if !c.stopped {
		c.timer.Reset(time.Until(c.next()))
	}
}

// verdict turns what was found into the reason for a cut; nil lets the request go on. A kcp that
// does not answer, or a caller who asks too much elsewhere, ends nothing for a while.
func (c *supervisor) verdict(refused *refusal.Error) *refusal.Error {
	if refused == nil {
		c.lastGood = time.Now()
		return nil
	}
	cut := refusal.Forbidden()
	cut.Cause, cut.Err = refusal.CauseCut, fmt.Errorf("%w: %w", errCut, refused)
	switch {
	case refused.Code >= http.StatusInternalServerError || refused.Code == http.StatusTooManyRequests:
		tolerance := c.h.settings.limits().KcpTolerance
		if time.Since(c.lastGood) < tolerance {
			return nil
		}
		cut = refusal.Unavailable(refusal.CauseKcpSilent, fmt.Sprintf("the workspace's API has not said for %s whether you still may: open the stream again", tolerance), 0, refused)
	case refused.Code == http.StatusNotFound || refused.Code == http.StatusConflict:
		cut.Cause = refusal.CauseInstanceEnded
	}
	return cut
}

func (c *supervisor) stillAllowed(oldest time.Time) *refusal.Error {
	g, refused := c.h.authorizer.Since(c.ctx, c.x.question, oldest)
	if refused != nil {
		return refused
	}
	at, refused := c.h.placer.Placed(c.ctx, c.h.authorizer, c.x.question, g, func(g access.Grant) (*locate.Place, *refusal.Error) {
		return c.h.placer.Find(c.x.kind, c.x.route, g)
	})
	if refused != nil {
		return refused
	}
	if at.ID.ID != c.id || at.Owner != c.owner {
		return refusal.NotFound(refusal.CauseNotPlaced) // the name is another instance's now
	}
	return nil
}
