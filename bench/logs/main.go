// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command logs measures the way of an app's output to who follows it: a line's latency and the
// throughput, through Sandbar next to the follow of a pod's log on the runtime cluster, and whether
// a hundred followers have every byte once, or are told what they lack, while some of them are
// slow, the log wraps around and the runner is killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
)

// options are what the flags say.
type options struct {
	turns, lines, followers int
	flood                   int
}

func main() {
	var o options
	flag.IntVar(&o.turns, "turns", 3, "how many turns")
	flag.IntVar(&o.lines, "n", 200, "lines of each turn, one every 10 ms")
	flag.IntVar(&o.flood, "flood", 1_000_000, "lines of 200 bytes that are written as fast as the app can")
	flag.IntVar(&o.followers, "followers", 100, "how many followers")
	stage.Main("logs", func(ctx context.Context, stack, results string) error { return run(ctx, stack, results, o) })
}

func run(ctx context.Context, stack, results string, o options) (err error) {
	s, err := stage.New(ctx, stack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	person, err := s.Person(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = person.Close() }()
	kube, err := kubernetes.NewForConfig(s.Stack.Runtime())
	if err != nil {
		return err
	}
	bare, err := newBarePod(ctx, s, kube)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	ways, err := newWays(ctx, s, person, kube, bare)
	if err != nil {
		return err
	}
	runner, err := s.Runner(ctx)
	if err != nil {
		return err
	}
	samples := map[string][]float64{}
	add := func(key string, values ...float64) { samples[key] = append(samples[key], values...) }
	for turn := range o.turns {
		for _, w := range ways {
			fmt.Fprintf(os.Stderr, "turn %d of %d: %s\n", turn+1, o.turns, w.name)
			late, err := w.latency(ctx, o.lines)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			add(w.name+"/line_ms", late...)
			rate, part, err := w.throughput(ctx, o.flood)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			add(w.name+"/mbps", rate)
			add(w.name+"/received_part", part)
		}
	}
	fmt.Fprintf(os.Stderr, "%d followers\n", o.followers)
	// The first of two runners; the second has half of the followers' reading alone.
	crowd, err := follow(ctx, s, person, o.followers, func() {
		mib, err := stage.Memory(runner.PID, "VmHWM")
		if err == nil {
			add("runner/mib", mib)
		}
	})
	if err != nil {
		return err
	}
	return write(results, o, samples, crowd)
}

func write(results string, o options, samples map[string][]float64, c *crowd) error {
	lines := []report.Line{{Name: "logs", Fields: []report.Field{
		{Key: "line_p50_ms", Value: percentile(samples["sandbar/line_ms"], 50)},
		{Key: "line_p99_ms", Value: percentile(samples["sandbar/line_ms"], 99)},
		{Key: "mbps", Value: report.Median(samples["sandbar/mbps"])},
		{Key: "text_mbps", Value: report.Median(samples["text/mbps"])},
		{Key: "runner_mbps", Value: report.Median(samples["runner/mbps"])},
		{Key: fmt.Sprintf("followers%d_lost", o.followers), Value: c.lost},
		{Key: "followers_with_gaps", Value: c.withGaps},
		{Key: "twice", Value: c.twice},
		{Key: "runner_mib", Value: report.Median(samples["runner/mib"])},
		{Key: "n", Value: len(samples["sandbar/line_ms"])},
	}}, {Name: "logs-pod", Fields: []report.Field{
		{Key: "line_p50_ms", Value: percentile(samples["pod_log/line_ms"], 50)},
		{Key: "line_p99_ms", Value: percentile(samples["pod_log/line_ms"], 99)},
		{Key: "mbps", Value: report.Median(samples["pod_log/mbps"])},
	}}}
	return report.Write(os.Stdout, results, "logs", samples, lines...)
}

// percentile is of samples in milliseconds.
func percentile(samples []float64, p float64) float64 {
	durations := make([]time.Duration, len(samples))
	for i, ms := range samples {
		durations[i] = time.Duration(ms * float64(time.Millisecond))
	}
	return report.Milliseconds(report.Percentile(durations, p))
}
