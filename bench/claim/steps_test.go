// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/bench/stage"
)

func TestAQuantileIsOfWhatWasCountedBetweenTwoLooks(t *testing.T) {
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Help: "X.", Buckets: []float64{0.01, 0.02, 0.04}})
	look := func() *dto.Histogram {
		t.Helper()
		var m dto.Metric
		if err := histogram.Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetHistogram()
	}
	before := look()
	if got := quantile(nil, before, 0.5); got != 0 {
		t.Errorf("of nothing it is %v", got)
	}
	for range 100 {
		histogram.Observe(0.039) // before the first look
	}
	before = look()
	for range 50 {
		histogram.Observe(0.005)
		histogram.Observe(0.015)
	}
	histogram.Observe(7)
	for q, want := range map[float64]float64{0.25: 0.005, 0.5: 0.01, 0.75: 0.015, 1: 0.04} {
		if got := quantile(before, look(), q); math.Abs(got-want) > 0.0005 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

func TestTheStepsOfTheProviderAreFoundInItsMetrics(t *testing.T) {
	steps, err := parseSteps(`# HELP other Other.
# TYPE other counter
other 1
# HELP sandbar_claim_step_seconds How long.
# TYPE sandbar_claim_step_seconds histogram
sandbar_claim_step_seconds_bucket{step="read",le="0.01"} 3
sandbar_claim_step_seconds_bucket{step="read",le="+Inf"} 4
sandbar_claim_step_seconds_sum{step="read"} 1
sandbar_claim_step_seconds_count{step="read"} 4
`)
	if err != nil || steps["read"].GetSampleCount() != 4 || len(steps["read"].GetBucket()) != 2 {
		t.Errorf("they are %v (%v)", steps, err)
	}
}

func TestAWayIsPartedByTheAdoption(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	is := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"start": map[string]any{
		"times": map[string]any{"placed": "2026-01-02T03:04:05.030000Z"},
	}}}}
	var w ways
	if err := w.add(stage.Way{Began: began, Shown: 10 * time.Millisecond, Ready: 45 * time.Millisecond}, is); err != nil {
		t.Fatal(err)
	}
	if w.shown[0] != 10*time.Millisecond || w.placed[0] != 20*time.Millisecond || w.ready[0] != 15*time.Millisecond {
		t.Errorf("it is parted as %v, %v and %v", w.shown, w.placed, w.ready)
	}
	if err := w.add(stage.Way{}, &unstructured.Unstructured{Object: map[string]any{}}); err == nil {
		t.Error("a Sandbox that does not say when it was placed is counted")
	}
}
