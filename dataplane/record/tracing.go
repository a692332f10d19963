// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

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

	"github.com/sandbar-dev/sandbar/dataplane/spans"
)

const (
	// HeaderTraceparent is the header of the W3C trace context.
	HeaderTraceparent = "Traceparent"
	// askedTraces is how many traces per second, and at once, are recorded because a caller's
	// traceparent asks for it. Any caller can set that flag on every request.
	askedTraces = 100
	// traceFlushTimeout bounds how long the end of the server waits for the last spans.
	traceFlushTimeout = 5 * time.Second
)

// Tracer records what happens to some requests. A nil tracer records nothing and costs nothing.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// tracingConfigured tells whether there is somewhere for traces to go: the flag, or what
// OpenTelemetry's own variables say.
func tracingConfigured(opts Options) bool {
	return opts.TracingEndpoint != "" || opts.Spans != nil ||
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// NewTracer makes the tracer that the options ask for; nil if they ask for none. Nothing is sent
// before the first span ends.
func NewTracer(ctx context.Context, opts Options) (*Tracer, error) {
	if !tracingConfigured(opts) {
		return nil, nil //nolint:nilnil // a nil tracer is one that is off
	}
	var exporting sdktrace.TracerProviderOption
	if opts.Spans != nil {
		exporting = sdktrace.WithSyncer(opts.Spans)
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
	return &Tracer{provider: provider, tracer: provider.Tracer(spans.Tracer)}, nil
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

// Begin starts the span of a request, below the caller's if there is a traceparent. Only that
// header is read: tracestate and baggage are for systems that trust each other. The span is nil if nothing
// is traced.
func (t *Tracer) Begin(r *http.Request) (*http.Request, trace.Span) {
	if t == nil {
		return r, nil
	}
	ctx := propagation.TraceContext{}.Extract(r.Context(), parentOnly(r.Header))
	ctx, span := t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
	return r.WithContext(ctx), span
}

// TraceIDOf leads to the trace of a span; empty if it is not recorded.
func TraceIDOf(span trace.Span) string {
	if span == nil || !span.IsRecording() {
		return ""
	}
	return span.SpanContext().TraceID().String()
}

// End ends the span of a request, with what is known of it by then. No path, query or header is
// in it.
func (t *Tracer) End(o *Outcome) {
	if t == nil {
		return
	}
	defer o.Span.End()
	if !o.Span.IsRecording() {
		return
	}
	verb, resource := o.labels()
	o.Span.SetName(resource + "/" + verb)
	o.Span.SetAttributes(
		attribute.String("http.request.method", loggedMethod(o.Request.Method)),
		attribute.Int("http.response.status_code", o.Code),
		attribute.Bool("sandbar.stream", o.IsStream),
	)
	if o.Route.IsWhole() {
		o.Span.SetAttributes(
			attribute.String("sandbar.workspace", o.Route.Workspace), attribute.String("sandbar.namespace", o.Route.Namespace),
			attribute.String("sandbar.name", o.Route.Name),
		)
	}
	if o.AuditID != "" {
		o.Span.SetAttributes(attribute.String("sandbar.audit_id", o.AuditID))
	}
	if o.Cause != "" {
		o.Span.SetAttributes(attribute.String("sandbar.reason", o.Cause))
	}
	if o.Code >= http.StatusInternalServerError {
		o.Span.SetStatus(codes.Error, o.Cause)
	}
}

// Close sends the last spans, for a bounded time.
func (t *Tracer) Close(ctx context.Context, log *slog.Logger) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, traceFlushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		log.Warn("the last traces are lost", "error", err)
	}
}

// parentOnly reads a traceparent, if there is exactly one, and no other header.
type parentOnly http.Header

// Get implements propagation.TextMapCarrier.
func (c parentOnly) Get(key string) string {
	if values := c[HeaderTraceparent]; strings.EqualFold(key, HeaderTraceparent) && len(values) == 1 {
		return values[0]
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (parentOnly) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (parentOnly) Keys() []string { return []string{HeaderTraceparent} }
