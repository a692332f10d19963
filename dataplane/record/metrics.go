// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/series"
)

// Other stands in labels for what no Template declares, so that a caller cannot make series.
const Other = "other"

// Values of labels.
const (
	typeRequest = "request"
	typeStream  = "stream"
)

// Results of a write, for the metrics of those who write.
const (
	WriteDone   = "written"
	WriteFailed = "failed"
)

// Bounds of histograms in seconds. A request's go from a cached answer of a pod on the same
// machine to the slowest that a person waits for.
var (
	requestSeconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	wakeSeconds    = []float64{.1, .25, .5, 1, 1.5, 2, 3, 5, 10, 20, 30, 60, 120}
	streamSeconds  = []float64{1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600}
)

// Metrics are those of one server, in a registry of their own. Labels are enumerations; a
// workspace, an instance or a caller is never one.
type Metrics struct {
	Registry  *prometheus.Registry
	requests  *series.Counters[requestLabels]
	duration  *series.Histograms
	upstream  *series.Histograms
	streams   *series.Histograms
	Refusals  *series.Counters[string]
	cuts      *series.Counters[cutLabels]
	inFlight  *series.Gauges[inFlightLabels]
	bytesIn   prometheus.Counter
	bytesOut  prometheus.Counter
	Access    *access.Metrics
	Transport *prometheus.GaugeVec

	ConnectionsEnded *series.Counters[string]
	HTTP2Errors      *series.Counters[string]

	// shownProofs and shownTokens count control requests by what they showed the pod.
	shownProofs, shownTokens prometheus.Counter

	auditLines   prometheus.Counter
	auditDropped *series.Counters[string]

	// claims are the Sandboxes that the verb claim has answered with, claimed how long that took, by start.
	claims  *series.Counters[claimLabels]
	claimed *series.Histograms

	// LeftCommands counts commands in pods without a runner whose callers have gone.
	LeftCommands *series.Counters[string]

	ActivityWrites *series.Counters[string]
	Heartbeats     *series.Counters[string]
	Renewals       *series.Counters[string]
	// Holding are the requests that wait for an instance to wake, held those that have waited.
	Holding prometheus.Gauge
	Held    *series.Histograms
	Wakes   *series.Histograms
}

type (
	requestLabels struct {
		verb, resource string
		code           int
	}
	cutLabels      struct{ verb, reason string }
	inFlightLabels struct{ kind, verb string }
	claimLabels    struct{ start, answer string }
)

func (l requestLabels) values() []string  { return []string{l.verb, l.resource, code(l.code)} }
func (l cutLabels) values() []string      { return []string{l.verb, l.reason} }
func (l inFlightLabels) values() []string { return []string{l.kind, l.verb} }
func (l claimLabels) values() []string    { return []string{l.start, l.answer} }

// NewMetrics returns metrics in a registry of their own; version is the program's.
func NewMetrics(version string) *Metrics {
	r := prometheus.NewRegistry()
	bytes := series.NewCounterVec(r, "bytes_total", "Bytes of bodies and upgraded connections, from (in) and to (out) callers.", "direction")
	m := &Metrics{
		Registry: r,
		requests: series.NewCounters(requestLabels.values,
			series.NewCounterVec(r, "requests_total", "Requests that ended, by verb, resource and code.", "verb", "resource", "code")),
		duration: series.NewHistograms(r, "request_duration_seconds", "Duration of requests that are no streams.", requestSeconds, "verb"),
		upstream: series.NewHistograms(r, "upstream_duration_seconds",
			"From sending a request towards the pod to the first byte of its answer.", requestSeconds, "verb"),
		streams:  series.NewHistograms(r, "stream_duration_seconds", "How long streams lasted that have ended.", streamSeconds, "verb"),
		Refusals: series.NewCounters(series.Label, series.NewCounterVec(r, "refusals_total", "Requests that the data plane refused, by reason.", "reason")),
		cuts: series.NewCounters(cutLabels.values,
			series.NewCounterVec(r, "cuts_total", "Requests and streams that ended before their time, after the answer had begun, by reason.", "verb", "reason")),
		inFlight: series.NewGauges(inFlightLabels.values, series.NewGaugeVec(r, "in_flight", "Requests and streams under way.", "type", "verb")),
		bytesIn:  bytes.WithLabelValues("in"), bytesOut: bytes.WithLabelValues("out"),
		Access:       access.NewMetrics(r),
		Transport:    series.NewGaugeVec(r, "transport", "1 for the transport in use, with the reason for the choice.", "mode", "reason"),
		auditLines:   series.NewCounterVec(r, "audit_lines_total", "Lines written to the audit log.").WithLabelValues(),
		auditDropped: series.NewCounters(series.Label, series.NewCounterVec(r, "audit_dropped_total", "Lines that the audit log did not get, by reason.", "reason")),
	}
	control := series.NewCounterVec(r, "control_requests_total", "Requests to control servers of pods, by what they showed: a proof of having the control token, or the token itself.", "auth")
	m.shownProofs, m.shownTokens = control.WithLabelValues("proof"), control.WithLabelValues("token")
	m.ConnectionsEnded = series.NewCounters(series.Label, series.NewCounterVec(r, "connections_ended_total",
		"Connections of callers that ended, by what they were at; upgraded ones are streams instead.", "during"))
	m.HTTP2Errors = series.NewCounters(series.Label, series.NewCounterVec(r, "http2_errors_total", "Errors of callers in HTTP/2, by what they did.", "error"))
	m.claims = series.NewCounters(claimLabels.values,
		series.NewCounterVec(r, "claims_total", "Sandboxes that the verb claim answered with, by start (Warm, Cold, unknown) and answer (ready, not_ready, same: found by an idempotency key).", "start", "answer"))
	m.claimed = series.NewHistograms(r, "claim_duration_seconds", "From a request for a Sandbox until it was Ready.", wakeSeconds, "start")
	m.LeftCommands = series.NewCounters(series.Label, series.NewCounterVec(r, "left_commands_total",
		"Commands in pods without a runner whose callers had gone before they ended, by whether all of their processes were ended.", "result"))
	m.ActivityWrites = series.NewCounters(series.Label, series.NewCounterVec(r, "activity_writes_total", "Times at which the last use of an instance was to be written, by result.", "result"))
	m.Holding = series.NewGaugeVec(r, "held", "Requests that wait for an instance to wake.").WithLabelValues()
	m.Held = series.NewHistograms(r, "held_duration_seconds", "How long requests waited for an instance to wake.", wakeSeconds, "result")
	m.Wakes = series.NewHistograms(r, "wake_duration_seconds", "From the first request to a sleeping instance until it could be reached.", wakeSeconds, "resource")
	m.Heartbeats = series.NewCounters(series.Label, series.NewCounterVec(r, "heartbeats_total", "Times at which this replica said that it serves, by result.", "result"))
	m.Renewals = series.NewCounters(series.Label, series.NewCounterVec(r, "lease_renewals_total", "Times at which this replica was to renew its own Lease, by result.", "result"))
	for _, result := range []string{WriteDone, WriteFailed} {
		m.ActivityWrites.Get(result)
		m.Heartbeats.Get(result)
		m.Renewals.Get(result)
	}
	series.NewGaugeVec(r, "build_info", "1, with the version of the data plane.", "version", "goversion").WithLabelValues(version, runtime.Version()).Set(1)
	// The series that alerts read exist from the start: a counter that appears with its first
	// increment has no rate for it.
	for _, reason := range auditDropReasons {
		m.auditDropped.Get(reason)
	}
	for _, cause := range []string{refusal.CauseForeignRef, refusal.CauseControl, refusal.CauseWakeTimeout, refusal.CauseFenced, refusal.CauseUnrecorded} {
		m.Refusals.Get(cause)
	}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics; in the OpenMetrics format, which Prometheus asks for, they have
// exemplars.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{Registry: m.Registry, EnableOpenMetrics: true})
}

// labels are the verb and the resource of a request, as far as a Template declares them.
func (o *Outcome) labels() (verb, resource string) {
	switch {
	case o.Kind != nil && o.Kind.Declares(o.Route):
		return o.Route.Verb, o.Kind.Resource.Resource
	case o.Kind != nil:
		return Other, o.Kind.Resource.Resource
	case o.Route.Catalogue != "":
		return "catalogue", o.Route.Catalogue
	case o.Route.Claims():
		return o.Route.Verb, locate.SandboxTemplates
	}
	return Other, Other
}

// Observe counts a request that has ended.
func (m *Metrics) Observe(o *Outcome) {
	verb, resource := o.labels()
	m.requests.Get(requestLabels{verb, resource, knownCode(o.Code)}).Inc()
	switch {
	case o.Cause == "":
	case o.Refused:
		m.Refusals.Get(o.Cause).Inc()
	default:
		m.cuts.Get(cutLabels{verb, o.Cause}).Inc()
	}
	if o.IsStream {
		m.streams.Observe(verb, o.Took, o.TraceID)
	} else {
		m.duration.Observe(verb, o.Took, o.TraceID)
	}
	if o.FirstByte > 0 {
		m.upstream.Observe(verb, o.FirstByte, o.TraceID)
	}
	m.bytesIn.Add(float64(o.BytesIn))
	m.bytesOut.Add(float64(o.BytesOut))
}

// Enter counts a request among those under way until the returned function is called.
func (m *Metrics) Enter(o *Outcome) (leave func()) {
	verb, _ := o.labels()
	kind := typeRequest
	if o.IsStream {
		kind = typeStream
	}
	m.cuts.Get(cutLabels{verb, refusal.CauseKcpSilent}) // an alert reads it, and verbs are not known from the start
	gauge := m.inFlight.Get(inFlightLabels{kind, verb})
	gauge.Inc()
	return gauge.Dec
}

// Answers of the verb claim.
const (
	ClaimReady    = "ready"
	ClaimNotReady = "not_ready"
	ClaimSame     = "same"
)

// Claimed counts a Sandbox that the verb claim answers with after a time.
func (m *Metrics) Claimed(start, answer string, took time.Duration, traceID string) {
	m.claims.Get(claimLabels{start, answer}).Inc()
	if answer == ClaimReady {
		m.claimed.Observe(start, took, traceID)
	}
}

// Shown counts a request that showed a pod the control token itself, or a proof of having it.
func (m *Metrics) Shown(token bool) {
	if token {
		m.shownTokens.Inc()
	} else {
		m.shownProofs.Inc()
	}
}

// knownCodes are the codes that get a series of their own; a pod may answer any number.
var knownCodes = []int{
	0, 101, 200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 408, 409, 410, 412, 413, 415, 416,
	422, 426, 429, 499, 500, 501, 502, 503, 504,
}

// knownCode is a code that has a series, or -1.
func knownCode(c int) int {
	if slices.Contains(knownCodes, c) {
		return c
	}
	return -1
}

func code(known int) string {
	if known < 0 {
		return Other
	}
	return strconv.Itoa(known)
}
