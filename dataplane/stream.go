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
	// recheckAfter and recheckSpread bound how long a stream goes on before its caller's right is
	// looked at again; with allowTTL on top a withdrawn right ends a stream within 30 s. The
	// spread keeps streams that began together from asking together.
	recheckAfter  = 10 * time.Second
	recheckSpread = 10 * time.Second
)

var errCut = errors.New("the caller's right, or the instance, has ended")

// supervise ends a request that lasts when the caller's right or the instance ends; a stream also
// when the server drains, so that it is opened elsewhere, and at the ceiling. It looks after plain
// requests too, because server-sent events and long downloads look like them at the beginning.
// The returned function must be called when the request has ended. There is no goroutine per
// request: timers run what there is to do.
func (h *handler) supervise(ctx context.Context, cancel context.CancelCauseFunc, x *exchange, at *place) (stop func()) {
	rechecks := &rechecker{h: h, ctx: ctx, cancel: cancel, question: x.question, route: x.route, kind: x.kind, id: at.id, lastGood: time.Now()}
	rechecks.schedule()
	if !x.isStream {
		return rechecks.stop
	}
	ceiling := time.AfterFunc(h.settings.limits().StreamDuration, func() {
		cancel(unavailable(causeStreamCeiling, "the stream has lasted as long as streams may: open it again", 0, nil))
	})
	undrain := context.AfterFunc(h.draining, func() {
		cancel(unavailable(causeDraining, "this server is shutting down: open the stream again", 0, nil))
	})
	return func() {
		rechecks.stop()
		ceiling.Stop()
		undrain()
	}
}

// rechecker looks at a stream's right again and again.
type rechecker struct {
	h        *handler
	ctx      context.Context //nolint:containedctx // the stream's life
	cancel   context.CancelCauseFunc
	question question
	route    route
	kind     *kind
	id       placement.ID
	lastGood time.Time

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (c *rechecker) schedule() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.timer = time.AfterFunc(recheckAfter+rand.N(recheckSpread), c.check) //nolint:gosec // jitter
	}
}

func (c *rechecker) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
}

func (c *rechecker) check() {
	refused := c.stillAllowed()
	switch {
	case refused == nil:
		c.lastGood = time.Now()
	case (refused.code >= http.StatusInternalServerError || refused.code == http.StatusTooManyRequests) && time.Since(c.lastGood) < c.h.settings.limits().KcpTolerance:
		// kcp restarts, or the caller asks too much elsewhere; a stream need not end for it.
	default:
		cut := forbidden()
		cut.cause, cut.err = causeCut, fmt.Errorf("%w: %w", errCut, refused)
		c.cancel(cut)
		return
	}
	c.schedule()
}

func (c *rechecker) stillAllowed() *refusal {
	g, refused := c.h.authorizer.authorize(c.ctx, c.question)
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
