// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// other stands in labels for what no Template declares, so that a caller cannot make series.
const other = "other"

// metrics are those of one server, in a registry of their own. Labels are enumerations; a
// workspace, an instance or a caller is never one.
type metrics struct {
	registry           *prometheus.Registry
	requests           *prometheus.CounterVec
	duration           *prometheus.HistogramVec
	refusals           *prometheus.CounterVec
	inFlight           *prometheus.GaugeVec
	bytes              *prometheus.CounterVec
	authorizationCache *prometheus.CounterVec
	kcpCalls           *prometheus.CounterVec
	transport          *prometheus.GaugeVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbar_dataplane_requests_total", Help: "Requests that ended, by verb, resource and code.",
		}, []string{"verb", "resource", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sandbar_dataplane_request_duration_seconds", Help: "Duration of requests that are no streams.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"verb"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbar_dataplane_refusals_total", Help: "Requests that the data plane refused or cut, by reason.",
		}, []string{"reason"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sandbar_dataplane_in_flight", Help: "Requests and streams under way.",
		}, []string{"type"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbar_dataplane_bytes_total", Help: "Bytes of bodies and upgraded connections, from (in) and to (out) callers.",
		}, []string{"direction"}),
		authorizationCache: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbar_dataplane_authorization_cache_total", Help: "Look-ups in the authorization cache.",
		}, []string{"result"}),
		kcpCalls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbar_dataplane_kcp_calls_total", Help: "Questions put to kcp as callers.",
		}, []string{"call", "outcome"}),
		transport: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sandbar_dataplane_transport", Help: "1 for the transport in use, with the reason for the choice.",
		}, []string{"mode", "reason"}),
	}
	m.registry.MustRegister(
		m.requests, m.duration, m.refusals, m.inFlight, m.bytes, m.authorizationCache, m.kcpCalls, m.transport,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// observe counts a request that has ended.
func (m *metrics) observe(x *exchange, took time.Duration) {
	verb, resource := other, other
	if x.kind != nil {
		resource = x.kind.resource.Resource
		if x.kind.declares(x.route) {
			verb = x.route.verb
		}
	} else if x.route.catalogue {
		verb, resource = "catalogue", catalogueSegment
	}
	m.requests.WithLabelValues(verb, resource, code(x.code())).Inc()
	if x.cause != "" {
		m.refusals.WithLabelValues(x.cause).Inc()
	}
	if !x.isStream {
		m.duration.WithLabelValues(verb).Observe(took.Seconds())
	}
	m.bytes.WithLabelValues("in").Add(float64(x.bytesIn.Load()))
	m.bytes.WithLabelValues("out").Add(float64(x.bytesOut.Load()))
}

// knownCodes are the codes that get a series of their own; a pod may answer any number.
var knownCodes = []int{
	0, 101, 200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 412, 413, 415, 416,
	422, 426, 429, 499, 500, 501, 502, 503, 504,
}

func code(c int) string {
	if slices.Contains(knownCodes, c) {
		return strconv.Itoa(c)
	}
	return other
}
