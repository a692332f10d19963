// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"context"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

const (
	// probeFirst and probeMost bound the pause between two attempts to reach an app whose pod is
	// ready: nothing tells when it begins to listen.
	probeFirst = 50 * time.Millisecond
	probeMost  = time.Second
	// listenPatience is how long a request waits for an app to listen, once its pod is ready.
	listenPatience = 10 * time.Second
)

// Call is a request that may have to wait.
type Call struct {
	// At is the instance's placement, as it was looked at last.
	At       *locate.Place
	Route    locate.Route
	Endpoint sandbarv1alpha1.Endpoint
	// InBrowser tells that a person waits for a page of a preview, who had better see that something
	// happens. Nothing is lost by not holding the request: the page loads itself again.
	InBrowser bool
	// TraceID leads to the request's trace; empty if it is not recorded.
	TraceID string
}

// Wait returns the placement of an instance that can be reached, or holds the request until it can be;
// waited tells which. After a wait all that was decided about the request has grown old.
func (w *Wakes) Wait(ctx context.Context, c Call) (now *locate.Place, waited bool, refused *refusal.Error) {
	now, state, refused := w.look(ctx, c)
	if refused != nil || state == instanceUp {
		return now, false, refused
	}
	timeout := c.At.Kind.WakeTimeout()
	began := w.Begin(now)
	if c.InBrowser {
		return nil, false, wakingPage(time.Since(began), timeout)
	}
	leave, refused := w.hold(c.At.ID.Namespace())
	if refused != nil {
		return nil, false, refused
	}
	since := time.Now()
	refused = w.wait(ctx, c, timeout)
	leave()
	w.Metrics.Held.Observe(heldResult(refused), time.Since(since), c.TraceID)
	return now, true, refused
}

// wait returns nil when the instance can be reached, or says why that is not to be waited for.
func (w *Wakes) wait(ctx context.Context, c Call, timeout time.Duration) *refusal.Error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	again := time.NewTimer(timeout)
	defer again.Stop()
	next, done := w.Changes.Await(c.At.ID.Namespace())
	defer done()
	pause := probeFirst
	for {
		changed := next() // before looking, so that no change is missed in between
		_, state, refused := w.look(ctx, c)
		if refused != nil || state == instanceUp {
			return refused
		}
		if state == instanceDeaf {
			again.Reset(pause)
			pause = min(2*pause, probeMost)
		}
		select {
		case <-changed:
		case <-again.C:
		case <-deadline.C:
			if state == instanceDeaf {
				return nil // as if it stayed so
			}
			return wakeTimedOut(timeout)
		case <-w.Draining.Done():
			return refusal.Unavailable(refusal.CauseDraining, "this server is shutting down: send the request again", 0, nil)
		case <-ctx.Done():
			if refused := refusal.CauseOf(ctx); refused != nil {
				return refused
			}
			return access.ClientGone(context.Cause(ctx))
		}
	}
}

// instanceState is how far an instance is on its way back.
type instanceState int

const (
	// instanceAway: it sleeps, or what the request leads to is not ready.
	instanceAway instanceState = iota
	// instanceDeaf: a pod is ready and accepts no connection yet.
	instanceDeaf
	// instanceUp: the request can go on.
	instanceUp
)

// look tells how far the instance is for this request.
func (w *Wakes) look(ctx context.Context, c Call) (*locate.Place, instanceState, *refusal.Error) {
	at := c.At
	instance := at.Kind.Instances.Get(at.ID.Namespace(), at.Instance.GetName())
	if instance == nil || locate.IsDeleting(instance) || at.ID.Check(instance) != nil {
		return nil, instanceAway, refusal.NotFound(refusal.CauseDeleting)
	}
	now := at.With(instance)
	switch cause := Suspension(instance); cause {
	case "":
	case sandbarv1alpha1.SuspendedUnused:
		return now, instanceAway, nil
	default:
		return nil, instanceAway, Refused(cause)
	}
	to, refused := w.Placer.ResolveLive(ctx, now, c.Route, c.Endpoint)
	switch {
	case refused != nil && refused.Cause == refusal.CauseNotReady:
		return now, instanceAway, nil
	case refused != nil:
		return nil, instanceAway, refused
	}
	return now, w.reachable(ctx, to), nil
}

// reachable tells whether a target can be reached.
func (w *Wakes) reachable(ctx context.Context, to *locate.Target) instanceState {
	switch {
	case !w.isReady(to):
		w.away(to)
		return instanceAway
	case to.IsSubresource() || w.answered(to):
	case !w.Ways.IsDirect(ctx, to):
		// The API server cannot be asked whether the app listens without sending it something.
	case w.probe(ctx, to) != nil:
		if w.staysDeaf(to) {
			return instanceUp // its turn to say what it says to everybody whose app does not listen
		}
		return instanceDeaf
	}
	w.answer(to)
	return instanceUp
}

// isReady tells whether a pod of the target is ready.
func (w *Wakes) isReady(to *locate.Target) bool {
	if to.Pod != nil {
		return to.Pod.DeletionTimestamp == nil && locate.IsPodReady(to.Pod)
	}
	return w.Ways.HasReady(to)
}
