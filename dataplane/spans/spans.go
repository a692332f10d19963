// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// Tracer names the tracer of every span.
const Tracer = "github.com/sandbar-dev/sandbar/dataplane"

// Child starts a span below that of ctx, if that is recorded; otherwise it costs nothing. The
// returned function ends it.
func Child(ctx context.Context, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, noSpan
	}
	return parent.TracerProvider().Tracer(Tracer).Start(ctx, name, trace.WithSpanKind(kind))
}

// noSpan takes everything and keeps nothing.
var noSpan = trace.SpanFromContext(context.Background())
