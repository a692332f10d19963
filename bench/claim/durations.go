// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/bench/report"
)

// durations are what was measured, by group and lane.
type durations struct {
	mu sync.Mutex
	of map[string]map[string][]time.Duration
}

func (d *durations) add(group, lane string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[string]map[string][]time.Duration{}
	}
	if d.of[group] == nil {
		d.of[group] = map[string][]time.Duration{}
	}
	d.of[group][lane] = append(d.of[group][lane], took)
}

// samples are all of them, in milliseconds.
func (d *durations) samples() map[string][]float64 {
	samples := map[string][]float64{}
	for group, lanes := range d.of {
		for lane, all := range lanes {
			for _, took := range all {
				samples[lane+"-"+group+"/ms"] = append(samples[lane+"-"+group+"/ms"], report.Milliseconds(took))
			}
		}
	}
	return samples
}

// lines have the figures of each lane in each group, and beside them how long the median of agent-sandbox, and of a cold start,
// is times that: a half is twice as fast.
func (d *durations) lines() (lines []report.Line) {
	for _, group := range []string{"sequence", "burst", "alone", "beside", "rate"} {
		for _, lane := range []string{warm, byClaim, byVerb, agentSandbox, cold} {
			took := d.of[group][lane]
			if len(took) == 0 {
				continue
			}
			fields := []report.Field{{Key: "group", Value: group}, {Key: "lane", Value: lane}}
			for _, p := range []struct {
				key string
				of  float64
			}{{"p50_ms", 50}, {"p95_ms", 95}, {"p99_ms", 99}} {
				fields = append(fields, report.Field{Key: p.key, Value: report.Milliseconds(report.Percentile(took, p.of))})
			}
			for _, other := range []struct {
				key  string
				took []time.Duration
				of   float64
			}{
				{"vs_agent_sandbox", d.of[group][agentSandbox], 50},
				{"vs_cold", d.of[group][cold], 50},
				// What hopeless Sandboxes cost the others.
				{"p99_vs_alone", map[string][]time.Duration{"beside": d.of["alone"][lane]}[group], 99},
			} {
				if len(other.took) > 0 {
					fields = append(fields, report.Field{Key: other.key, Value: float64(report.Percentile(took, other.of)) / float64(report.Percentile(other.took, other.of))})
				}
			}
			lines = append(lines, report.Line{Name: "claim", Fields: append(fields, report.Field{Key: "n", Value: len(took)})})
		}
	}
	return lines
}
