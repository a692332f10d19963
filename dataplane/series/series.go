// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The first two parts of the data plane's metrics' names.
const (
	Namespace = "sandbar"
	Subsystem = "dataplane"
)

// Of is a table from labels to a series of a metric. A vector's WithLabelValues hashes its labels
// and takes a lock each time; this is one read of a map that never changes, without allocation.
// It grows as the vector does: labels are enumerations. The zero value is not usable.
type Of[L comparable, S any] struct {
	known atomic.Pointer[map[L]S]
	mu    sync.Mutex
	find  func(L) S
}

func newOf[L comparable, S any](find func(L) S) *Of[L, S] {
	s := &Of[L, S]{find: find}
	s.known.Store(&map[L]S{})
	return s
}

// Get returns the series of some labels.
func (s *Of[L, S]) Get(labels L) S {
	if found, ok := (*s.known.Load())[labels]; ok {
		return found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	grown := maps.Clone(*s.known.Load())
	grown[labels] = s.find(labels)
	s.known.Store(&grown)
	return grown[labels]
}

type (
	// Counters are a table of counters.
	Counters[L comparable] = Of[L, prometheus.Counter]
	// Gauges are a table of gauges.
	Gauges[L comparable] = Of[L, prometheus.Gauge]
)

// NewCounters is a table of a vector's counters; values returns the labels' values in the vector's order.
func NewCounters[L comparable](values func(L) []string, v *prometheus.CounterVec) *Counters[L] {
	return newOf(func(l L) prometheus.Counter { return v.WithLabelValues(values(l)...) })
}

// NewGauges is a table of a vector's gauges; values returns the labels' values in the vector's order.
func NewGauges[L comparable](values func(L) []string, v *prometheus.GaugeVec) *Gauges[L] {
	return newOf(func(l L) prometheus.Gauge { return v.WithLabelValues(values(l)...) })
}

// Label is the values of a single label.
func Label(value string) []string { return []string{value} }

// Histograms are a histogram with one label.
type Histograms struct {
	series *Of[string, prometheus.Observer]
}

// NewHistograms registers a histogram of durations in seconds with one label.
func NewHistograms(r prometheus.Registerer, name, help string, bounds []float64, label string) *Histograms {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: Namespace, Subsystem: Subsystem, Name: name, Help: help, Buckets: bounds,
	}, []string{label})
	r.MustRegister(v)
	return &Histograms{newOf(func(value string) prometheus.Observer { return v.WithLabelValues(value) })}
}

// Observe counts a duration; traceID, if it is not empty, leads from the bucket to a trace.
func (h *Histograms) Observe(label string, took time.Duration, traceID string) {
	series := h.series.Get(label)
	if with, ok := series.(prometheus.ExemplarObserver); ok && traceID != "" {
		with.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": traceID})
		return
	}
	series.Observe(took.Seconds())
}

// NewCounterVec registers a counter.
func NewCounterVec(r prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: Namespace, Subsystem: Subsystem, Name: name, Help: help,
	}, labels)
	r.MustRegister(v)
	return v
}

// NewGaugeVec registers a gauge.
func NewGaugeVec(r prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: Namespace, Subsystem: Subsystem, Name: name, Help: help,
	}, labels)
	r.MustRegister(v)
	return v
}
