// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

const (
	tracerName        = "github.com/sandbar-dev/sandbar/dataplane"
	headerTraceparent = "Traceparent"
	// askedTraces is how many traces per second, and at once, are recorded because a caller's
	// traceparent asks for it. Any caller can set that flag on every request.
	askedTraces = 100
	// traceFlushTimeout bounds how long the end of the server waits for the last spans.
	traceFlushTimeout = 5 * time.Second
)

// tracer records what happens to some requests. A nil tracer records nothing and costs nothing.
type tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// tracingConfigured tells whether there is somewhere for traces to go: the flag, or what
// OpenTelemetry's own variables say.
func tracingConfigured(opts Options) bool {
	return opts.TracingEndpoint != "" || opts.spans != nil ||
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// newTracer makes the tracer that the options ask for; nil if they ask for none. Nothing is sent
// before the first span ends.
func newTracer(ctx context.Context, opts Options) (*tracer, error) {
	if !tracingConfigured(opts) {
		return nil, nil //nolint:nilnil // a nil tracer is one that is off
	}
	var exporting sdktrace.TracerProviderOption
	if opts.spans != nil {
		exporting = sdktrace.WithSyncer(opts.spans)
	} else {
		exporter, err := otlptracehttp.New(ctx, endpointOption(opts.TracingEndpoint)...)
		if err != nil {
			return nil, fmt.Errorf("making the exporter of traces: %w", err)
		}
		exporting = sdktrace.WithBatcher(exporter)
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { opts.Logger.Warn("traces are lost", "error", err) }))
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "sandbar-dataplane"), attribute.String("service.version", opts.Version),
	), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("describing this program in traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(exporting, sdktrace.WithResource(about), sdktrace.WithSampler(newSampler(opts.TracingRatio)))
	return &tracer{provider: provider, tracer: provider.Tracer(tracerName)}, nil
}

// endpointOption is where traces go. Like OpenTelemetry's variable, the flag names the receiver
// and not the path there, unless it has one.
func endpointOption(endpoint string) []otlptracehttp.Option {
	if endpoint == "" {
		return nil // the library reads its variables
	}
	if rest := endpoint[strings.Index(endpoint, "//")+2:]; !strings.Contains(strings.TrimSuffix(rest, "/"), "/") {
		endpoint = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	}
	return []otlptracehttp.Option{otlptracehttp.WithEndpointURL(endpoint)}
}

// newSampler records a share of the requests that come without a traceparent, those whose
// traceparent says that they are recorded up to askedTraces per second, and no others.
func newSampler(ratio float64) sdktrace.Sampler {
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio),
		sdktrace.WithRemoteParentSampled(&boundedSampler{rate.NewLimiter(askedTraces, askedTraces)}))
}

// boundedSampler records up to a rate. A share of the trace IDs would be no bound: the caller
// chooses them.
type boundedSampler struct{ limiter *rate.Limiter }

// ShouldSample implements sdktrace.Sampler.
func (s *boundedSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if s.limiter.Allow() {
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}

// Description implements sdktrace.Sampler.
func (*boundedSampler) Description() string { return "AtMostPerSecond" }

// begin starts the span of a request, below the caller's if there is a traceparent. Only that
// header is read: tracestate and baggage are for systems that trust each other.
func (t *tracer) begin(x *exchange) {
	if t == nil {
		return
	}
	ctx := propagation.TraceContext{}.Extract(x.request.Context(), parentOnly(x.request.Header))
	ctx, x.span = t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
	x.request = x.request.WithContext(ctx)
	if x.span.IsRecording() {
		x.traceID = x.span.SpanContext().TraceID().String()
	}
}

// end ends the span of a request, with what is known of it by then. No path, query or header is
// in it.
func (t *tracer) end(x *exchange) {
	if t == nil {
		return
	}
	defer x.span.End()
	if !x.span.IsRecording() {
		return
	}
	verb, resource := x.labels()
	x.span.SetName(resource + "/" + verb)
	x.span.SetAttributes(
		attribute.String("http.request.method", loggedMethod(x.request.Method)),
		attribute.Int("http.response.status_code", x.code()),
		attribute.Bool("sandbar.stream", x.isStream),
	)
	if x.route.isWhole() {
		x.span.SetAttributes(
			attribute.String("sandbar.workspace", x.route.workspace), attribute.String("sandbar.namespace", x.route.namespace),
			attribute.String("sandbar.name", x.route.name),
		)
	}
	if x.auditID != "" {
		x.span.SetAttributes(attribute.String("sandbar.audit_id", x.auditID))
	}
	if x.cause != "" {
		x.span.SetAttributes(attribute.String("sandbar.reason", x.cause))
	}
	if x.code() >= http.StatusInternalServerError {
		x.span.SetStatus(codes.Error, x.cause)
	}
}

// close sends the last spans, for a bounded time.
func (t *tracer) close(ctx context.Context, log *slog.Logger) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, traceFlushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		log.Warn("the last traces are lost", "error", err)
	}
}

// childSpan starts a span below that of ctx, if that is recorded; otherwise it costs nothing. The
// returned function ends it.
func childSpan(ctx context.Context, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, noSpan
	}
	return parent.TracerProvider().Tracer(tracerName).Start(ctx, name, trace.WithSpanKind(kind))
}

// noSpan takes everything and keeps nothing.
var noSpan = trace.SpanFromContext(context.Background())

// spanToPod starts the span of the way to the pod and names it to the pod, in place of whatever
// the caller's header said. The pod learns two random numbers and a bit.
func spanToPod(ctx context.Context, x *exchange) (context.Context, trace.Span) {
	ctx, span := childSpan(ctx, "pod", trace.SpanKindClient)
	if x.span != nil {
		delete(x.request.Header, headerTraceparent)
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(x.request.Header))
	}
	return ctx, span
}

// parentOnly reads a traceparent, if there is exactly one, and no other header.
type parentOnly http.Header

// Get implements propagation.TextMapCarrier.
func (c parentOnly) Get(key string) string {
	if values := c[headerTraceparent]; strings.EqualFold(key, headerTraceparent) && len(values) == 1 {
		return values[0]
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (parentOnly) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (parentOnly) Keys() []string { return []string{headerTraceparent} }
