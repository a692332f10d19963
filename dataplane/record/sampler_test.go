// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"testing"
	"testing/synctest"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A caller can ask for each of its requests to be recorded.
func TestCallersCannotHaveMoreRecordedThanTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true,
		})
		ctx := trace.ContextWithSpanContext(context.Background(), parent)
		sampler := newSampler(1)
		recorded := 0
		for range 10 * askedTraces {
			if sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: parent.TraceID()}).Decision == sdktrace.RecordAndSample {
				recorded++
			}
		}
		if recorded != askedTraces {
			t.Errorf("%d were recorded within one moment, want %d", recorded, askedTraces)
		}
	})
}
