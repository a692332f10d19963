// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/spans"
)

const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
)

// podHeaders is a pod that keeps the header of the last request.
type podHeaders struct {
	mu   sync.Mutex
	last http.Header
}

func (p *podHeaders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = r.Header.Clone()
	_, _ = io.WriteString(w, "ok")
}

func (p *podHeaders) get(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[name]
}

// traced is a world whose spans stay in memory; it records all requests without a traceparent.
func traced(t *testing.T, backend http.Handler, changes ...func(*setup)) (*world, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	return newWorld(t, backend, append(changes, func(s *setup) { s.opts.spans, s.opts.TracingRatio = keeping{spans}, 1 })...), spans
}

// keeping keeps its spans beyond the end of the server.
type keeping struct{ *tracetest.InMemoryExporter }

func (keeping) Shutdown(context.Context) error { return nil }

func withHeaders(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
}

// spanNamed waits for a span: a request's ends after its caller has the answer.
func spanNamed(t *testing.T, spans *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	var found tracetest.SpanStub
	eventually(t, "there is a span "+name, func() bool {
		for _, s := range spans.GetSpans() {
			if s.Name == name {
				found = s
				return true
			}
		}
		return false
	})
	return found
}

func TestATraceLeadsFromTheCallerToThePod(t *testing.T) {
	pod := &podHeaders{}
	out := &closableBuffer{}
	w, spans := traced(t, pod, func(s *setup) { s.opts.AuditLog, s.opts.auditOut = "test", out })
	w.do("POST", demo+"sync?secret=query", adminToken, strings.NewReader("body"), withHeaders(
		"traceparent", "00-"+callersTrace+"-"+callersSpan+"-01", "tracestate", "hub=user-alice", "baggage", "user=alice",
	))
	root := spanNamed(t, spans, "sandboxrunners/sync")
	authorize, toPod := spanNamed(t, spans, "authorize"), spanNamed(t, spans, "pod")
	get, review := spanNamed(t, spans, "kcp get"), spanNamed(t, spans, "kcp review")
	if root.SpanContext.TraceID().String() != callersTrace || root.Parent.SpanID().String() != callersSpan || root.SpanKind != trace.SpanKindServer {
		t.Errorf("the request's span is not below the caller's: %+v", root.SpanContext)
	}
	for _, edge := range []struct{ child, parent tracetest.SpanStub }{{authorize, root}, {toPod, root}, {get, authorize}, {review, authorize}} {
		if edge.child.Parent.SpanID() != edge.parent.SpanContext.SpanID() {
			t.Errorf("%s is not below %s", edge.child.Name, edge.parent.Name)
		}
	}
	want := fmt.Sprintf("00-%s-%s-01", callersTrace, toPod.SpanContext.SpanID())
	if got := pod.get("Traceparent"); len(got) != 1 || got[0] != want {
		t.Errorf("the pod was told %q, want %s", got, want)
	}
	if pod.get("Tracestate") != nil || pod.get("Baggage") != nil {
		t.Error("the pod learned what systems in front noted of the caller")
	}
	attributes := fmt.Sprint(root.Attributes)
	for _, want := range []attribute.KeyValue{
		attribute.Int("http.response.status_code", 200), attribute.String("sandbar.workspace", "root:acme:dev"), attribute.String("sandbar.name", "demo"),
	} {
		if !strings.Contains(attributes, fmt.Sprint(want)) {
			t.Errorf("the span does not have %v: %s", want, attributes)
		}
	}
	if strings.Contains(fmt.Sprintf("%+v", spans.GetSpans()), "secret") || strings.Contains(fmt.Sprintf("%+v", spans.GetSpans()), adminToken) {
		t.Error("a query or a token is in a span")
	}
	eventually(t, "the audit log leads to the trace", func() bool { l := out.lines(t); return len(l) > 0 && l[0].TraceID == callersTrace })
	if text := w.openMetrics(); !strings.Contains(text, `# {trace_id="`+callersTrace+`"}`) {
		t.Error("the histogram does not lead to the trace")
	}
	w.do("GET", demo+"log", adminToken, nil, withHeaders("traceparent", "00-"+callersTrace+"-"+callersSpan+"-01"))
	stream := regexp.MustCompile(`_dataplane_stream_duration_seconds_bucket\{verb="log".*# \{trace_id="` + callersTrace)
	eventually(t, "the histogram of streams leads to the trace", func() bool { return stream.MatchString(w.openMetrics()) })
	spanNamed(t, spans, "sandboxrunners/log")

	spans.Reset()
	w.do("POST", demo+"sync", adminToken, nil)
	spanNamed(t, spans, "sandboxrunners/sync")
	for _, s := range spans.GetSpans() {
		if strings.HasPrefix(s.Name, "kcp") {
			t.Errorf("a cached answer has a span %s", s.Name)
		}
	}
}

func TestWhatACallersTraceparentDecides(t *testing.T) {
	for name, c := range map[string]struct {
		headers  []string
		recorded bool
		trace    string // empty for a new one
		flags    string
	}{
		"recorded there, recorded here":         {[]string{"traceparent", "00-" + callersTrace + "-" + callersSpan + "-01"}, true, callersTrace, "01"},
		"not recorded there, nor here":          {[]string{"traceparent", "00-" + callersTrace + "-" + callersSpan + "-00"}, false, callersTrace, "00"},
		"none begins one here":                  {nil, true, "", "01"},
		"one that is malformed is none":         {[]string{"traceparent", "00-xyz-" + callersSpan + "-01"}, true, "", "01"},
		"one of zeros is none":                  {[]string{"traceparent", "00-" + strings.Repeat("0", 32) + "-" + callersSpan + "-01"}, true, "", "01"},
		"two are none, and neither goes on":     {[]string{"traceparent", "00-" + callersTrace + "-" + callersSpan + "-01", "traceparent", "00-" + callersTrace + "-" + callersSpan + "-01"}, true, "", "01"},
		"one with unknown flags is none":        {[]string{"traceparent", "00-" + callersTrace + "-" + callersSpan + "-f9"}, true, "", "01"},
		"what is behind a version is not ours":  {[]string{"traceparent", "cc-" + callersTrace + "-" + callersSpan + "-01-what-the-future-brings"}, true, callersTrace, "01"},
		"one with a line break goes nowhere on": {[]string{"traceparent", "00-" + callersTrace + "-" + callersSpan + "-01 x"}, true, "", "01"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &podHeaders{}
			w, spans := traced(t, pod)
			w.do("POST", demo+"sync", adminToken, nil, withHeaders(c.headers...))
			if err := w.stop(); err != nil {
				t.Fatal(err)
			}
			got := pod.get("Traceparent")
			if len(got) != 1 || len(got[0]) != 55 || !strings.HasSuffix(got[0], "-"+c.flags) || c.trace != "" && got[0][3:35] != c.trace || c.trace == "" && got[0][3:35] == callersTrace {
				t.Errorf("the pod was told %q", got)
			}
			if recorded := len(spans.GetSpans()) > 0; recorded != c.recorded {
				t.Errorf("%d spans were recorded", len(spans.GetSpans()))
			}
		})
	}
}

func TestWithoutTracingACallersTraceparentPassesAsItIs(t *testing.T) {
	pod := &podHeaders{}
	w := newWorld(t, pod)
	const callers = "00-" + callersTrace + "-" + callersSpan + "-01"
	w.do("POST", demo+"sync", adminToken, nil, withHeaders("traceparent", callers, "tracestate", "a=b", "baggage", "a=b"))
	if got := pod.get("Traceparent"); len(got) != 1 || got[0] != callers || pod.get("Tracestate") != nil || pod.get("Baggage") != nil {
		t.Errorf("the pod was told %q, %q, %q", got, pod.get("Tracestate"), pod.get("Baggage"))
	}
}

func TestWithoutTracingAStepCostsNothing(t *testing.T) {
	ctx := t.Context()
	var off *record.Tracer
	x := &exchange{request: httptest.NewRequest(http.MethodGet, "/", nil)}
	if n := testing.AllocsPerRun(100, func() {
		x.request, x.span = off.Begin(x.request)
		_, span := spans.Child(ctx, "authorize", trace.SpanKindInternal)
		span.End()
		_, span = spanToPod(ctx, x)
		span.End()
		o := x.outcome(0)
		off.End(&o)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The receiver here is a real one as far as HTTP and the protocol go.
func TestTracesReachAnOTLPReceiver(t *testing.T) {
	received := make(chan *collector.ExportTraceServiceRequest, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		data, err := io.ReadAll(body)
		var got collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &got) != nil {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		received <- &got
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer receiver.Close()
	for name, configure := range map[string]func(*setup){
		"by the flag":            func(s *setup) { s.opts.TracingEndpoint = receiver.URL },
		"by the flag and a path": func(s *setup) { s.opts.TracingEndpoint = receiver.URL + "/v1/traces" },
		"by the environment":     func(*setup) { t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &podHeaders{}, configure, func(s *setup) { s.opts.TracingRatio = 1 })
			w.do("POST", demo+"sync", adminToken, nil)
			if err := w.stop(); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, r := range (<-received).ResourceSpans {
				if !strings.Contains(r.Resource.String(), "sandbar-dataplane") {
					t.Errorf("the program is %v", r.Resource)
				}
				for _, s := range r.ScopeSpans {
					for _, span := range s.Spans {
						names = append(names, span.Name)
					}
				}
			}
			if got := strings.Join(names, ","); !strings.Contains(got, "sandboxrunners/sync") || !strings.Contains(got, "pod") {
				t.Errorf("the spans are %s", got)
			}
		})
	}
}

// A receiver that is away costs spans and a line in the log, never a request.
func TestAReceiverThatIsAwayCostsNoRequest(t *testing.T) {
	w := newWorld(t, &podHeaders{}, func(s *setup) { s.opts.TracingEndpoint, s.opts.TracingRatio = "http://127.0.0.1:9", 1 })
	if res, _ := w.do("POST", demo+"sync", adminToken, nil); res.StatusCode != http.StatusOK {
		t.Errorf("got %d", res.StatusCode)
	}
}
