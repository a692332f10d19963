// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"

	"go.opentelemetry.io/otel/trace"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/spans"
	"github.com/sandbar-dev/sandbar/dataplane/wake"
)

// awake has it recorded that the instance is used, and holds the request while the instance sleeps or wakes.
// It returns the placement as it is then. Nothing of the request's body has been read, and no pod
// has heard of it.
func (h *handler) awake(x *exchange, at *locate.Place, e sandbarv1alpha1.Endpoint) (*locate.Place, *refusal.Error) {
	cause := wake.Suspension(at.Instance)
	if cause != "" && cause != sandbarv1alpha1.SuspendedUnused {
		return nil, wake.Refused(cause) // which is no use of it
	}
	x.use = h.activity.Begin(at.ID.ID)
	if cause != "" {
		h.wakes.Begin(at)
	}
	if refused := h.activity.Recorded(x.request.Context(), x.use, at.ID.ID); refused != nil { // and that alone wakes it
		return nil, refused
	}
	if cause == "" && !h.wakes.Waking(at.ID.Namespace()) {
		return at, nil
	}
	return h.wake(x, at, e)
}

// wake waits for an instance that sleeps or wakes.
func (h *handler) wake(x *exchange, at *locate.Place, e sandbarv1alpha1.Endpoint) (*locate.Place, *refusal.Error) {
	ctx, span := spans.Child(x.request.Context(), "wake", trace.SpanKindInternal)
	defer span.End()
	now, waited, refused := h.wakes.Wait(ctx, wake.Call{At: at, Route: x.route, Endpoint: e, InBrowser: x.isPage(), TraceID: x.traceID})
	if refused != nil || !waited {
		return now, refused
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

// isPage reports whether a browser loads a page of a preview.
func (x *exchange) isPage() bool {
	return x.onPreview && x.request.Method == http.MethodGet && !access.IsUpgrade(x.request.Header) && preview.WantsPage(x.request.Header)
}
