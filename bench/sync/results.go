// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sandbar-dev/sandbar/bench/report"
)

// percentile is of samples in milliseconds.
func percentile(samples []float64, p float64) float64 {
	durations := make([]time.Duration, len(samples))
	for i, ms := range samples {
		durations[i] = time.Duration(ms * float64(time.Millisecond))
	}
	return report.Milliseconds(report.Percentile(durations, p))
}

// writeResults prints the lines: what a person waits for, and what the others took. How many
// times longer another takes at the median is vs_…; more is better for Sandbar.
func writeResults(results string, o options, samples map[string][]float64) error {
	p50 := func(key string) float64 { return percentile(samples[key], 50) }
	p99 := func(key string) float64 { return percentile(samples[key], 99) }
	name := "sync"
	if o.files != 5000 {
		name = fmt.Sprintf("sync-%d", o.files)
	}
	edit := p50("sandbar/edit_ms")
	lines := []report.Line{
		{Name: name, Fields: []report.Field{
			{Key: "edit_p50_ms", Value: edit},
			{Key: "edit_p99_ms", Value: p99("sandbar/edit_ms")},
			{Key: "vs_mutagen", Value: p50("mutagen/edit_ms") / edit},
			{Key: "vs_tar", Value: p50("tar/edit_ms") / edit},
			{Key: fmt.Sprintf("checkout%d_ms", o.checkout), Value: p50("sandbar/checkout_ms")},
			{Key: "bytes_1line_50mb", Value: report.Median(samples["sandbar/big_lines_bytes"])},
			{Key: "bytes_one_line_50mb", Value: report.Median(samples["sandbar/big_line_bytes"])},
			{Key: "edit_50mb_ms", Value: p50("sandbar/big_lines_ms")},
			{Key: "idle_cpu_pct", Value: report.Median(samples["sandbar/idle_cpu_pct"])},
			{Key: "runner_mib", Value: report.Median(samples["sandbar/runner_mib"])},
			{Key: "files", Value: o.files},
			{Key: "n", Value: len(samples["sandbar/edit_ms"])},
		}},
	}
	for _, other := range []string{"mutagen", "tar"} {
		if len(samples[other+"/edit_ms"]) == 0 {
			continue
		}
		lines = append(lines, report.Line{Name: name + "-" + other, Fields: []report.Field{
			{Key: "edit_p50_ms", Value: p50(other + "/edit_ms")},
			{Key: "edit_p99_ms", Value: p99(other + "/edit_ms")},
			{Key: fmt.Sprintf("checkout%d_ms", o.checkout), Value: p50(other + "/checkout_ms")},
			{Key: "bytes_1line_50mb", Value: report.Median(samples[other+"/big_lines_bytes"])},
			{Key: "edit_50mb_ms", Value: p50(other + "/big_lines_ms")},
			{Key: "idle_cpu_pct", Value: report.Median(samples[other+"/idle_cpu_pct"])},
		}})
	}
	// A file that was not edited before: mutagen's default looks for those every ten seconds, its
	// quickest way to look at all every second.
	lines = append(lines, report.Line{Name: name + "-cold", Fields: []report.Field{
		{Key: "p50_ms", Value: p50("sandbar/cold_ms")},
		{Key: "mutagen_p50_ms", Value: p50("mutagen/cold_ms")},
		{Key: "mutagen_polling_p50_ms", Value: p50("mutagen-poll/cold_ms")},
		{Key: "tar_p50_ms", Value: p50("tar/cold_ms")},
		{Key: "n", Value: len(samples["sandbar/cold_ms"])},
	}})
	for i := range lines {
		lines[i].Fields = slices.DeleteFunc(lines[i].Fields, func(f report.Field) bool {
			// Nothing that is measured takes no time; only an idle session costs nothing.
			value, ok := f.Value.(float64)
			return ok && value == 0 && f.Key != "idle_cpu_pct"
		})
	}
	return report.Write(os.Stdout, results, name, samples, lines...)
}
