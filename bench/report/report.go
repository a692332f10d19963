// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package report turns what a benchmark measured into one line per figure, for people and
// programs, and into a file with the environment beside it.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Field is one key and value of a line.
type Field struct {
	Key   string
	Value any
}

// Line is the result of one benchmark.
type Line struct {
	Name   string
	Fields []Field
}

// String is "BENCH <name> <key>=<value> …". Floats have three significant digits at least.
func (l Line) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "BENCH %s", l.Name)
	for _, f := range l.Fields {
		if v, ok := f.Value.(float64); ok {
			fmt.Fprintf(&b, " %s=%s", f.Key, format(v))
			continue
		}
		fmt.Fprintf(&b, " %s=%v", f.Key, f.Value)
	}
	return b.String()
}

func format(v float64) string {
	if math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Percentile returns the smallest of the samples that is at least as large as p percent of them
// (nearest rank). It is 0 for no samples.
func Percentile(samples []time.Duration, p float64) time.Duration {
	return Sorted(slices.Sorted(slices.Values(samples)), p)
}

// Sorted is Percentile for samples that are sorted.
func Sorted(samples []time.Duration, p float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(samples))))
	return samples[max(rank, 1)-1]
}

// Median is the middle value, or the lower of the two in the middle; 0 for none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[(len(values)-1)/2]
}

// Milliseconds is a duration as a number for a Field.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Write prints the lines and writes them with the environment to dir/<date>-<name>.json. The keys
// of the samples end in their unit.
func Write(out io.Writer, dir, name string, samples map[string][]float64, lines ...Line) error {
	result := struct {
		Time        time.Time            `json:"time"`
		Environment map[string]string    `json:"environment"`
		Lines       []string             `json:"lines"`
		Samples     map[string][]float64 `json:"samples,omitempty"`
	}{Time: time.Now().UTC().Truncate(time.Second), Environment: environment(), Samples: samples}
	for _, l := range lines {
		fmt.Fprintln(out, l)
		result.Lines = append(result.Lines, l.String())
	}
	data, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	file := filepath.Join(dir, result.Time.Format("2006-01-02")+"-"+name+".json")
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// environment is what figures depend on; it names no machine.
func environment() map[string]string {
	env := map[string]string{
		"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
		"cpus": strconv.Itoa(runtime.NumCPU()),
	}
	if data, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		env["kernel"], _, _ = strings.Cut(strings.TrimSpace(string(data)), "-")
	}
	// Where a virtual machine's processor does not poll for a while before it sleeps, each wake costs.
	for key, file := range map[string]string{
		"idle_governor":      "/sys/devices/system/cpu/cpuidle/current_governor_ro",
		"guest_halt_poll_ns": "/sys/module/haltpoll/parameters/guest_halt_poll_ns",
	} {
		if data, err := os.ReadFile(file); err == nil {
			env[key] = strings.TrimSpace(string(data))
		}
	}
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				env["cpu"] = strings.TrimSpace(value)
				break
			}
		}
	}
	return env
}
