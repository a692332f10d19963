// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sandbar-dev/sandbar/pkg/proxyrules"
)

// Where a request went, as a label.
const (
	toBaseline = "baseline"
	toCopy     = "copy"
)

// Bounds of the histogram in seconds, from a cached answer on the same machine to the slowest that a person waits for.
var requestSeconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// classes are those of codes. A client that has gone before an answer is "499" to nginx, and so among the 4xx here.
var classes = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

// metrics are those of a proxy. Their labels are enumerations: neither an ID nor an address is one.
type metrics struct {
	registry *prometheus.Registry
	// requests and seconds are by whether they went to a copy, then by class.
	requests [2][len(classes)]prometheus.Counter
	seconds  [2]prometheus.Observer
	errors   *prometheus.CounterVec

	connections, passing prometheus.Gauge
	refused              prometheus.Counter
	detected             *prometheus.CounterVec

	configErrors, configApplied              prometheus.Counter
	configHash, configRules, configAppliedAt prometheus.Gauge
}

func newMetrics(draining func() bool) *metrics {
	r := prometheus.NewRegistry()
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sandbar", Subsystem: "proxy", Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "sandbar", Subsystem: "proxy", Name: name, Help: help})
		r.MustRegister(g)
		return g
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "sandbar", Subsystem: "proxy", Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		registry:        r,
		errors:          counters("errors_total", "Requests and connections without a whole answer, by where they went and why.", "to", "cause"),
		connections:     gauge("connections", "Connections of clients."),
		passing:         gauge("passing_connections", "Connections that are not HTTP, or were upgraded."),
		refused:         counter("connections_refused_total", "Connections that were closed at once because there were too many."),
		detected:        counters("detected_total", "Connections to ports whose protocol is found out, by what it was, and those to ports of HTTP that are not HTTP.", "protocol"),
		configErrors:    counter("config_errors_total", "Documents that were refused."),
		configApplied:   counter("config_applied_total", "Documents that were applied, withdrawn ones included."),
		configHash:      gauge("config_hash", "A number that is the same where the same document is applied; 0 if none is."),
		configRules:     gauge("config_rules", "Rules of the document that is applied."),
		configAppliedAt: gauge("config_applied_timestamp_seconds", "When the document was applied."),
	}
	requests := counters("requests_total", "Requests that have ended, by where they went and the class of the code.", "to", "code")
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "sandbar", Subsystem: "proxy", Name: "request_duration_seconds",
		Help: "Duration of requests, upgraded ones left out.", Buckets: requestSeconds,
	}, []string{"to"})
	r.MustRegister(seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for i, to := range [...]string{toBaseline, toCopy} {
		m.seconds[i] = seconds.WithLabelValues(to)
		for j, class := range classes {
			m.requests[i][j] = requests.WithLabelValues(to, class)
		}
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "sandbar", Subsystem: "proxy", Name: "draining", Help: "1 while clients are asked to close their connections.",
	}, func() float64 {
		if draining() {
			return 1
		}
		return 0
	}))
	return m
}

// count counts a request that has ended.
func (m *metrics) count(copied bool, code int, took time.Duration, upgraded bool) {
	to, class := 0, code/100
	if copied {
		to = 1
	}
	if class < 1 || class >= len(classes) {
		class = 0
	}
	m.requests[to][class].Inc()
	if !upgraded {
		m.seconds[to].Observe(took.Seconds())
	}
}

func (m *metrics) failed(copied bool, cause string) {
	to := toBaseline
	if copied {
		to = toCopy
	}
	m.errors.WithLabelValues(to, cause).Inc()
}

func (m *metrics) applied(t *proxyrules.Table, at time.Time) {
	m.configApplied.Inc()
	m.configRules.Set(float64(t.Rules))
	m.configAppliedAt.Set(float64(at.Unix()))
	var hash uint64
	if len(t.Hash) >= hashDigits {
		hash, _ = strconv.ParseUint(t.Hash[:hashDigits], 16, 64)
	}
	m.configHash.Set(float64(hash))
}

// hashDigits are as many as a float64 has room for.
const hashDigits = 12
