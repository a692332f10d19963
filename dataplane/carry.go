// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/spans"
	"github.com/sandbar-dev/sandbar/dataplane/wake"
)

// carry sends the request to the pod and the answer to the caller. When the instance has fallen asleep
// on the way, the request waits like one that came a moment later; once.
func (h *handler) carry(x *exchange, to *locate.Target, e sandbarv1alpha1.Endpoint) *refusal.Error {
	c := &x.call
	c.Writer, c.Request, c.Route, c.Caller, c.Minder = &x.Writer, x.request, x.route, x.question.Caller, x
	way, refused := h.ways.Way(c, to)
	if refused != nil {
		return refused
	}
	c.Sent = time.Now()
	ctx, cancel := context.WithCancelCause(x.request.Context())
	ctx, span := spanToPod(ctx, x)
	stop := h.supervise(ctx, cancel, x, to.At)
	x.AtEnd(func() {
		x.noteCut(ctx)
		stop()
		span.End()
		cancel(nil)
	})
	refused = h.ways.Carry(ctx, c, to, way)
	if refused == nil || !c.IsUnheard(refused) || !wake.FellAsleep(to.At) {
		return refused
	}
	x.Answered() // no pod is waited for until there is one
	at, refused := h.wake(x, to.At, e)
	if refused != nil {
		return refused
	}
	if to, refused = h.placer.ResolveLive(x.request.Context(), at, x.route, e); refused != nil {
		return refused
	}
	if way, refused = h.ways.Way(c, to); refused != nil {
		return refused
	}
	c.Sent = time.Now()
	x.Asked(c.Sent)
	return h.ways.Carry(ctx, c, to, way)
}

// Overdue implements upstream.Minder.
func (x *exchange) Overdue(now time.Time) *refusal.Error { return x.supervisor.overdue(now) }

// Asked implements upstream.Minder.
func (x *exchange) Asked(now time.Time) { x.supervisor.asked(now) }

// Answered implements upstream.Minder.
func (x *exchange) Answered() { x.supervisor.answered() }

// noteCut records why an answer that had begun was cut.
func (x *exchange) noteCut(ctx context.Context) {
	x.cause = cmp.Or(x.cause, x.call.Cause)
	if x.refused {
		return // there was none
	}
	if refused := refusal.CauseOf(ctx); refused != nil {
		x.cause, x.err = refused.Cause, refused.Err
	} else if x.request.Context().Err() != nil && x.cause == "" {
		x.cause = refusal.CauseClientGone
	}
}

// spanToPod starts the span of the way to the pod and names it to the pod, in place of whatever
// the caller's header said. The pod learns two random numbers and a bit.
func spanToPod(ctx context.Context, x *exchange) (context.Context, trace.Span) {
	ctx, span := spans.Child(ctx, "pod", trace.SpanKindClient)
	if x.span != nil {
		delete(x.request.Header, record.HeaderTraceparent)
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(x.request.Header))
	}
	return ctx, span
}
