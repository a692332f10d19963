// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sandbar-dev/sandbar/tenant"
)

// other stands in labels for what no Template declares, so that a caller cannot make series.
const other = "other"

// Values of labels.
const (
	typeRequest = "request"
	typeStream  = "stream"

	callGet    = "get"
	callReview = "review"
	callWho    = "identity"
	callPatch  = "patch"
)

// Bounds of histograms in seconds. A request's go from a cached answer of a pod on the same
// machine to the slowest that a person waits for.
var (
	requestSeconds       = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	authorizationSeconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	wakeSeconds          = []float64{.1, .25, .5, 1, 1.5, 2, 3, 5, 10, 20, 30, 60, 120}
	streamSeconds        = []float64{1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600}
)

// metrics are those of one server, in a registry of their own. Labels are enumerations; a
// workspace, an instance or a caller is never one.
type metrics struct {
	registry  *prometheus.Registry
	requests  *counters[requestLabels]
	duration  *histograms
	upstream  *histograms
	streams   *histograms
	refusals  *counters[string]
	cuts      *counters[cutLabels]
	inFlight  *gauges[inFlightLabels]
	bytesIn   prometheus.Counter
	bytesOut  prometheus.Counter
	cacheHit  prometheus.Counter
	cacheMiss prometheus.Counter
	authorize *histograms
	kcpCalls  *counters[callLabels]
	transport *prometheus.GaugeVec

	connectionsEnded *counters[string]
	http2Errors      *counters[string]

	auditLines   prometheus.Counter
	auditDropped *counters[string]

	activityWrites *counters[string]
	heartbeats     *counters[string]
	// holding are the requests that wait for an instance to wake, held those that have waited.
	holding prometheus.Gauge
	held    *histograms
	wakes   *histograms
}

type (
	requestLabels struct {
		verb, resource string
		code           int
	}
	cutLabels      struct{ verb, reason string }
	inFlightLabels struct{ kind, verb string }
	callLabels     struct{ call, outcome string }
)

func (l requestLabels) values() []string  { return []string{l.verb, l.resource, code(l.code)} }
func (l cutLabels) values() []string      { return []string{l.verb, l.reason} }
func (l inFlightLabels) values() []string { return []string{l.kind, l.verb} }
func (l callLabels) values() []string     { return []string{l.call, l.outcome} }

func newMetrics(version string) *metrics {
	r := prometheus.NewRegistry()
	bytes := newCounterVec(r, "bytes_total", "Bytes of bodies and upgraded connections, from (in) and to (out) callers.", "direction")
	cache := newCounterVec(r, "authorization_cache_total", "Look-ups in the authorization cache.", "result")
	m := &metrics{
		registry: r,
		requests: newCounters(requestLabels.values,
			newCounterVec(r, "requests_total", "Requests that ended, by verb, resource and code.", "verb", "resource", "code")),
		duration: newHistograms(r, "request_duration_seconds", "Duration of requests that are no streams.", requestSeconds, "verb"),
		upstream: newHistograms(r, "upstream_duration_seconds",
			"From sending a request towards the pod to the first byte of its answer.", requestSeconds, "verb"),
		streams:  newHistograms(r, "stream_duration_seconds", "How long streams lasted that have ended.", streamSeconds, "verb"),
		refusals: newCounters(one, newCounterVec(r, "refusals_total", "Requests that the data plane refused, by reason.", "reason")),
		cuts: newCounters(cutLabels.values,
			newCounterVec(r, "cuts_total", "Requests and streams that ended before their time, after the answer had begun, by reason.", "verb", "reason")),
		inFlight: newGauges(inFlightLabels.values, newGaugeVec(r, "in_flight", "Requests and streams under way.", "type", "verb")),
		bytesIn:  bytes.WithLabelValues("in"), bytesOut: bytes.WithLabelValues("out"),
		cacheHit: cache.WithLabelValues("hit"), cacheMiss: cache.WithLabelValues("miss"),
		authorize: newHistograms(r, "authorization_duration_seconds",
			"How long kcp took to say whether a caller may; answers from the cache are not in it.", authorizationSeconds, "result"),
		kcpCalls:     newCounters(callLabels.values, newCounterVec(r, "kcp_calls_total", "Questions put to kcp as callers.", "call", "outcome")),
		transport:    newGaugeVec(r, "transport", "1 for the transport in use, with the reason for the choice.", "mode", "reason"),
		auditLines:   newCounterVec(r, "audit_lines_total", "Lines written to the audit log.").WithLabelValues(),
		auditDropped: newCounters(one, newCounterVec(r, "audit_dropped_total", "Lines that the audit log did not get, by reason.", "reason")),
	}
	m.connectionsEnded = newCounters(one, newCounterVec(r, "connections_ended_total",
		"Connections of callers that ended, by what they were at; upgraded ones are streams instead.", "during"))
	for _, during := range append(duringNames[:], duringHTTP2) {
		m.connectionsEnded.get(during)
	}
	m.http2Errors = newCounters(one, newCounterVec(r, "http2_errors_total", "Errors of callers in HTTP/2, by what they did.", "error"))
	for _, name := range []string{http2Streams, http2Resets, http2Other} {
		m.http2Errors.get(name)
	}
	m.activityWrites = newCounters(one, newCounterVec(r, "activity_writes_total", "Times at which the last use of an instance was to be written, by result.", "result"))
	m.holding = newGaugeVec(r, "held", "Requests that wait for an instance to wake.").WithLabelValues()
	m.held = newHistograms(r, "held_duration_seconds", "How long requests waited for an instance to wake.", wakeSeconds, "result")
	m.wakes = newHistograms(r, "wake_duration_seconds", "From the first request to a sleeping instance until it could be reached.", wakeSeconds, "resource")
	m.heartbeats = newCounters(one, newCounterVec(r, "heartbeats_total", "Times at which this replica said that it serves, by result.", "result"))
	for _, result := range []string{writeDone, writeFailed} {
		m.activityWrites.get(result)
		m.heartbeats.get(result)
	}
	newGaugeVec(r, "build_info", "1, with the version of the data plane.", "version", "goversion").WithLabelValues(version, runtime.Version()).Set(1)
	// The series that alerts read exist from the start: a counter that appears with its first
	// increment has no rate for it.
	for _, reason := range auditDropReasons {
		m.auditDropped.get(reason)
	}
	for _, cause := range []string{causeForeignRef, causeWakeTimeout} {
		m.refusals.get(cause)
	}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// handler serves the metrics; in the OpenMetrics format, which Prometheus asks for, they have
// exemplars.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// labels are the verb and the resource of a request, as far as a Template declares them.
func (x *exchange) labels() (verb, resource string) {
	switch {
	case x.kind != nil && x.kind.declares(x.route):
		return x.route.verb, x.kind.resource.Resource
	case x.kind != nil:
		return other, x.kind.resource.Resource
	case x.route.catalogue:
		return "catalogue", catalogueSegment
	}
	return other, other
}

// observe counts a request that has ended.
func (m *metrics) observe(x *exchange, took time.Duration) {
	verb, resource := x.labels()
	m.requests.get(requestLabels{verb, resource, knownCode(x.code())}).Inc()
	switch {
	case x.cause == "":
	case x.refused:
		m.refusals.get(x.cause).Inc()
	default:
		m.cuts.get(cutLabels{verb, x.cause}).Inc()
	}
	if x.isStream {
		m.streams.observe(verb, took, x.traceID)
	} else {
		m.duration.observe(verb, took, x.traceID)
	}
	if x.firstByte > 0 {
		m.upstream.observe(verb, x.firstByte, x.traceID)
	}
	m.bytesIn.Add(float64(x.bytesIn.Load()))
	m.bytesOut.Add(float64(x.bytesOut.Load()))
}

// enter counts a request among those under way until the returned function is called.
func (m *metrics) enter(x *exchange) (leave func()) {
	verb, _ := x.labels()
	kind := typeRequest
	if x.isStream {
		kind = typeStream
	}
	m.cuts.get(cutLabels{verb, causeKcpSilent}) // an alert reads it, and verbs are not known from the start
	gauge := m.inFlight.get(inFlightLabels{kind, verb})
	gauge.Inc()
	return gauge.Dec
}

// called counts a question that was put to kcp.
func (m *metrics) called(call string, outcome tenant.Outcome) {
	m.kcpCalls.get(callLabels{call, outcome.String()}).Inc()
}

// authorized counts how long kcp took for an answer.
func (m *metrics) authorized(refused *refusal, took time.Duration) {
	result := "allowed"
	switch {
	case refused == nil:
	case refused.code >= http.StatusInternalServerError:
		result = "unavailable"
	default:
		result = "refused"
	}
	m.authorize.observe(result, took, "")
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
		return other
	}
	return strconv.Itoa(known)
}
