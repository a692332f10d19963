// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	metricsNamespace = "sandbar"
	metricsSubsystem = "dataplane"
)

// seriesOf is a table from labels to a series of a metric. A vector's WithLabelValues hashes its labels
// and takes a lock each time; this is one read of a map that never changes, without allocation.
// It grows as the vector does: labels are enumerations. The zero value is not usable.
type seriesOf[L comparable, S any] struct {
	known atomic.Pointer[map[L]S]
	mu    sync.Mutex
	find  func(L) S
}

func newSeries[L comparable, S any](find func(L) S) *seriesOf[L, S] {
	s := &seriesOf[L, S]{find: find}
	s.known.Store(&map[L]S{})
	return s
}

func (s *seriesOf[L, S]) get(labels L) S {
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
	counters[L comparable] = seriesOf[L, prometheus.Counter]
	gauges[L comparable]   = seriesOf[L, prometheus.Gauge]
)

func newCounters[L comparable](values func(L) []string, v *prometheus.CounterVec) *counters[L] {
	return newSeries(func(l L) prometheus.Counter { return v.WithLabelValues(values(l)...) })
}

func newGauges[L comparable](values func(L) []string, v *prometheus.GaugeVec) *gauges[L] {
	return newSeries(func(l L) prometheus.Gauge { return v.WithLabelValues(values(l)...) })
}

// one is the values of a single label.
func one(value string) []string { return []string{value} }

// histograms are a histogram with one label.
type histograms struct {
	series *seriesOf[string, prometheus.Observer]
}

func newHistograms(r prometheus.Registerer, name, help string, bounds []float64, label string) *histograms {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help, Buckets: bounds,
	}, []string{label})
	r.MustRegister(v)
	return &histograms{newSeries(func(value string) prometheus.Observer { return v.WithLabelValues(value) })}
}

// observe counts a duration; traceID, if it is not empty, leads from the bucket to a trace.
func (h *histograms) observe(label string, took time.Duration, traceID string) {
	series := h.series.get(label)
	if with, ok := series.(prometheus.ExemplarObserver); ok && traceID != "" {
		with.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": traceID})
		return
	}
	series.Observe(took.Seconds())
}

func newCounterVec(r prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help,
	}, labels)
	r.MustRegister(v)
	return v
}

func newGaugeVec(r prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help,
	}, labels)
	r.MustRegister(v)
	return v
}
