// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/spans"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// probeFirst and probeMost bound the pause between two attempts to reach an app whose pod is
	// ready: nothing tells when it begins to listen.
	probeFirst = 50 * time.Millisecond
	probeMost  = time.Second
	// listenPatience is how long a request waits for an app to listen, once its pod is ready.
	listenPatience = 10 * time.Second
)

// suspension says why a runtime instance has no pods; empty when it is meant to have some. What is
// suspended without a word is so by its tenant: nothing is woken that does not say that it sleeps.
func suspension(instance *unstructured.Unstructured) sandbarv1alpha1.SuspensionCause {
	if spec, _ := instance.Object["spec"].(map[string]any); spec["suspended"] != true {
		return ""
	}
	metadata, _ := instance.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	cause, _ := annotations[placement.AnnotationSuspension].(string)
	switch cause := sandbarv1alpha1.SuspensionCause(cause); cause {
	case sandbarv1alpha1.SuspendedUnused, sandbarv1alpha1.SuspendedExpired:
		return cause
	case sandbarv1alpha1.SuspendedByUser:
	}
	return sandbarv1alpha1.SuspendedByUser
}

// fellAsleep tells whether an instance is suspended by now that was not when it was looked at.
func fellAsleep(at *locate.Place) bool {
	now := at.Kind.Instances.Get(at.ID.Namespace(), at.Instance.GetName())
	return now != nil && suspension(now) != ""
}

// awake has it recorded that the instance is used, and holds the request while the instance sleeps or wakes.
// It returns the placement as it is then. Nothing of the request's body has been read, and no pod
// has heard of it.
func (h *handler) awake(x *exchange, at *locate.Place, e sandbarv1alpha1.Endpoint) (*locate.Place, *refusal.Error) {
	cause := suspension(at.Instance)
	if cause != "" && cause != sandbarv1alpha1.SuspendedUnused {
		return nil, suspended(cause) // which is no use of it
	}
	x.use = h.activity.Begin(at.ID.ID)
	if cause != "" {
		h.wakes.begin(at, at.Kind.WakeTimeout(), h.activity)
	}
	if refused := h.activity.Recorded(x.request.Context(), x.use, at.ID.ID); refused != nil { // and that alone wakes it
		return nil, refused
	}
	if cause == "" && !h.wakes.waking(at.ID.Namespace()) {
		return at, nil
	}
	return h.wake(x, at, e)
}

// wake waits for an instance that sleeps or wakes.
func (h *handler) wake(x *exchange, at *locate.Place, e sandbarv1alpha1.Endpoint) (*locate.Place, *refusal.Error) {
	ctx, span := spans.Child(x.request.Context(), "wake", trace.SpanKindInternal)
	defer span.End()
	now, state, refused := h.look(ctx, at, x.route, e)
	if refused != nil || state == instanceUp {
		return now, refused
	}
	timeout := at.Kind.WakeTimeout()
	began := h.wakes.begin(now, timeout, h.activity)
	if x.waitsInBrowser() {
		return nil, wakingPage(time.Since(began), timeout)
	}
	leave, refused := h.wakes.hold(at.ID.Namespace())
	if refused != nil {
		return nil, refused
	}
	since := time.Now()
	refused = h.wait(ctx, x, at, e, timeout)
	leave()
	h.metrics.Held.Observe(heldResult(refused), time.Since(since), x.traceID)
	if refused != nil {
		return nil, refused
	}
	// What kcp has said may have grown old meanwhile, and the instance may be another's by now.
	g, refused := h.authorize(x)
	if refused != nil {
		return nil, refused
	}
	after, refused := h.place(x, g)
	if refused == nil && after.ID != at.ID {
		return nil, refusal.NotFound(refusal.CauseNotPlaced)
	}
	return after, refused
}

// wait returns nil when the instance can be reached, or says why that is not to be waited for.
func (h *handler) wait(ctx context.Context, x *exchange, at *locate.Place, e sandbarv1alpha1.Endpoint, timeout time.Duration) *refusal.Error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	again := time.NewTimer(timeout)
	defer again.Stop()
	next, done := h.changes.Await(at.ID.Namespace())
	defer done()
	pause := probeFirst
	for {
		changed := next() // before looking, so that no change is missed in between
		_, state, refused := h.look(ctx, at, x.route, e)
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
		case <-h.draining.Done():
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
func (h *handler) look(ctx context.Context, at *locate.Place, r locate.Route, e sandbarv1alpha1.Endpoint) (*locate.Place, instanceState, *refusal.Error) {
	instance := at.Kind.Instances.Get(at.ID.Namespace(), at.Instance.GetName())
	if instance == nil || locate.IsDeleting(instance) || at.ID.Check(instance) != nil {
		return nil, instanceAway, refusal.NotFound(refusal.CauseDeleting)
	}
	now := &locate.Place{ID: at.ID, Kind: at.Kind, Instance: instance}
	switch cause := suspension(instance); cause {
	case "":
	case sandbarv1alpha1.SuspendedUnused:
		return now, instanceAway, nil
	default:
		return nil, instanceAway, suspended(cause)
	}
	to, refused := h.resolve(ctx, now, r, e)
	switch {
	case refused != nil && refused.Cause == refusal.CauseNotReady:
		return now, instanceAway, nil
	case refused != nil:
		return nil, instanceAway, refused
	}
	return now, h.reachable(ctx, to), nil
}

// reachable tells whether a target can be reached.
func (h *handler) reachable(ctx context.Context, to *locate.Target) instanceState {
	switch {
	case !h.isReady(to):
		h.wakes.away(to)
		return instanceAway
	case to.IsSubresource() || h.wakes.answered(to):
	case !h.ways.IsDirect(ctx, to):
		// The API server cannot be asked whether the app listens without sending it something.
	case h.wakes.probe(ctx, h.ways, to) != nil:
		if h.wakes.staysDeaf(to) {
			return instanceUp // its turn to say what it says to everybody whose app does not listen
		}
		return instanceDeaf
	}
	h.wakes.answer(to)
	return instanceUp
}

// isReady tells whether a pod of the target is ready.
func (h *handler) isReady(to *locate.Target) bool {
	if to.Pod != nil {
		return to.Pod.DeletionTimestamp == nil && podReady(to.Pod)
	}
	return h.ways.HasReady(to)
}

func podReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// waitsInBrowser tells whether a person waits for a page of a preview, who had better see that
// something happens. Nothing is lost by not holding it: the page loads itself again.
func (x *exchange) waitsInBrowser() bool {
	return x.onPreview && x.request.Method == http.MethodGet && !access.IsUpgrade(x.request.Header) && preview.WantsPage(x.request.Header)
}

// suspended refuses what does not wake an instance.
func suspended(cause sandbarv1alpha1.SuspensionCause) *refusal.Error {
	e := &refusal.Error{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
	if cause == sandbarv1alpha1.SuspendedExpired {
		e.Cause = refusal.CauseExpired
		e.Message = "the instance's time is over: set a later spec.lifecycle.shutdownTime to have it back"
	} else {
		e.Cause = refusal.CauseSuspended
		e.Message = "the instance is suspended by its tenant: set its spec.suspended to false, or run sandbar resume, to resume it"
	}
	return e
}

func wakeTimedOut(limit time.Duration) *refusal.Error {
	return refusal.Unavailable(refusal.CauseWakeTimeout, fmt.Sprintf("the instance was asleep and did not wake within %s; it goes on waking: try again, and look at its conditions if that does not help", limit), 5*time.Second, nil)
}

// wakingPage is for a person in front of a browser. The longer it takes, the rarer the page is
// loaded again.
func wakingPage(took, limit time.Duration) *refusal.Error {
	const slowly = 30 * time.Second
	switch {
	case took > limit:
		return refusal.Unavailable(refusal.CauseWakeTimeout, fmt.Sprintf("the sandbox was asleep and did not wake within %s. This page tries again every %s; if that does not help, look at the sandbox's conditions", limit, slowly), slowly, nil)
	case took > 10*time.Second:
		return refusal.Unavailable(refusal.CauseWaking, "the sandbox was asleep and is waking, which takes longer than usual. This page loads the preview by itself", 3*time.Second, nil)
	}
	return refusal.Unavailable(refusal.CauseWaking, "the sandbox was asleep and is waking. This page loads the preview by itself", time.Second, nil)
}
