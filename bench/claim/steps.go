// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
)

// Where the time of warm starts goes. The tenant's watch says when the Sandbox was shown (event), and the status when it was
// adopted: what lies between is the provider's way to the adoption, with its wait in the queue (eligible), and what comes
// after it until the tenant's watch shows Ready. The provider's own histogram has its steps in between.

// providerSteps are those of the histogram, in their order.
var providerSteps = []string{"read", "revision", "adoption", "observation", "status"}

const stepMetric = "sandbar_claim_step_seconds"

// ways are those of warm starts.
type ways struct {
	mu                   sync.Mutex
	shown, placed, ready []time.Duration
}

// add notes a way. The Sandbox says when it was adopted, by the same clock: all runs on one machine.
func (w *ways) add(took stage.Way, is *unstructured.Unstructured) error {
	said, _, _ := unstructured.NestedString(is.Object, "status", "start", "times", "placed")
	at, err := time.Parse(time.RFC3339Nano, said)
	if err != nil {
		return fmt.Errorf("the status does not say when the Sandbox was placed: %w", err)
	}
	placed := at.Sub(took.Began)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown, w.placed, w.ready = append(w.shown, took.Shown), append(w.placed, placed-took.Shown), append(w.ready, took.Ready-placed)
	return nil
}

// lines are the steps as the tenant and the provider have seen them.
func (w *ways) lines(group string, before, after map[string]*dto.Histogram) []report.Line {
	line := func(step string, p50, p99 float64) report.Line {
		return report.Line{Name: "claim-step", Fields: []report.Field{
			{Key: "group", Value: group}, {Key: "step", Value: step}, {Key: "p50_ms", Value: p50}, {Key: "p99_ms", Value: p99},
		}}
	}
	var lines []report.Line
	for _, seen := range []struct {
		step string
		took []time.Duration
	}{{"event", w.shown}, {"event-to-adoption", w.placed}, {"adoption-to-ready", w.ready}} {
		lines = append(lines, line(seen.step, report.Milliseconds(report.Percentile(seen.took, 50)), report.Milliseconds(report.Percentile(seen.took, 99))))
	}
	for _, step := range providerSteps {
		lines = append(lines, line("provider-"+step, quantile(before[step], after[step], 0.5)*1000, quantile(before[step], after[step], 0.99)*1000))
	}
	return lines
}

// steps reads the provider's histograms, by step.
func steps(ctx context.Context, provider *local.Provider) (map[string]*dto.Histogram, error) {
	text, err := provider.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	return parseSteps(text)
}

func parseSteps(text string) (map[string]*dto.Histogram, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	// The provider's text is that of two servers: of ours only the lines of one metric count.
	var own strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, stepMetric) {
			own.WriteString(line)
		}
	}
	families, err := parser.TextToMetricFamilies(strings.NewReader(own.String()))
	if err != nil {
		return nil, fmt.Errorf("reading the provider's metrics: %w", err)
	}
	all := map[string]*dto.Histogram{}
	for _, metric := range families[stepMetric].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "step" {
				all[label.GetValue()] = metric.GetHistogram()
			}
		}
	}
	return all, nil
}

// quantile is that of what a histogram has counted between two looks, in seconds; 0 for nothing. Within a bucket it is
// linear, so that it is exact to a bucket.
func quantile(before, after *dto.Histogram, q float64) float64 {
	counted := func(i int) float64 {
		n := float64(after.GetBucket()[i].GetCumulativeCount())
		if i < len(before.GetBucket()) {
			n -= float64(before.GetBucket()[i].GetCumulativeCount())
		}
		return n
	}
	buckets := after.GetBucket()
	total := float64(after.GetSampleCount()) - float64(before.GetSampleCount())
	if total <= 0 {
		return 0
	}
	lower, below := 0.0, 0.0
	for i, bucket := range buckets {
		upper := bucket.GetUpperBound()
		n := counted(i)
		switch {
		case n < q*total:
			lower, below = upper, n
		case math.IsInf(upper, 1), n == below:
			return lower
		default:
			return lower + (upper-lower)*(q*total-below)/(n-below)
		}
	}
	return lower
}
