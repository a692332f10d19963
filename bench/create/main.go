// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command create measures how long a SandboxRunner takes from create to Ready, as its tenant
// sees it, next to a bare kro instance of the same graph in the same run. Both are made one
// after the other in turns, so that what the machine does meets both alike, and then ten at
// once; then the tenant's again while another workspace has sixty Sandboxes that are refused. The bare instance's namespace and Secret exist before the clock starts: it is the
// floor, not a rival.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
)

func main() {
	sequence := flag.Int("n", 30, "how many of each one after the other")
	burst := flag.Int("burst", 10, "how many of each at once")
	refused := flag.Int("refused", 60, "how many Sandboxes of another workspace are refused meanwhile")
	stage.Main("create", func(ctx context.Context, stack, results string) error {
		return run(ctx, stack, results, *sequence, *burst, *refused)
	})
}

func run(ctx context.Context, name, results string, sequence, burst, refused int) error {
	stack, err := local.Find(ctx, name)
	if err != nil {
		return err
	}
	if _, err := stack.StartProvider(ctx, local.ProviderOptions{Log: os.Stderr}); err != nil {
		return err
	}
	subjects, err := newSubjects(ctx, stack)
	if err != nil {
		return err
	}
	defer subjects.cleanUp()

	fmt.Fprintln(os.Stderr, "warming up")
	for i := range 2 {
		for _, s := range subjects.all() {
			if _, err := s.measure(ctx, fmt.Sprintf("warm-%d", i)); err != nil {
				return err
			}
		}
	}
	serial := map[string][]time.Duration{}
	for i := range sequence {
		for _, s := range subjects.all() {
			took, err := s.measure(ctx, fmt.Sprintf("seq-%d", i))
			if err != nil {
				return err
			}
			serial[s.name()] = append(serial[s.name()], took)
			fmt.Fprintf(os.Stderr, "%s %d/%d: %v\n", s.name(), i+1, sequence, took.Round(time.Millisecond))
		}
	}
	atOnce := map[string][]time.Duration{}
	for _, s := range subjects.all() {
		took, err := measureBurst(ctx, s, burst)
		if err != nil {
			return err
		}
		atOnce[s.name()] = took
	}
	beside, err := besideRefused(ctx, stack, subjects.tenant, refused, sequence)
	if err != nil {
		return err
	}
	samples := raw(serial, atOnce)
	for _, took := range beside {
		samples[besideSamples] = append(samples[besideSamples], report.Milliseconds(took))
	}
	return report.Write(os.Stdout, results, "create", samples,
		line("create", serial), line("create-burst", atOnce), besideLine(beside, serial[sandboxRunner], refused))
}

// measureBurst makes n at once and returns how long each took.
func measureBurst(ctx context.Context, s subject, n int) ([]time.Duration, error) {
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		all   []time.Duration
		first error
	)
	for i := range n {
		wait.Go(func() {
			took, err := s.measure(ctx, fmt.Sprintf("burst-%d", i))
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
			all = append(all, took)
		})
	}
	wait.Wait()
	return all, first
}

func line(name string, took map[string][]time.Duration) report.Line {
	ours, bare := took[sandboxRunner], took[bareKro]
	p50, bareP50 := report.Percentile(ours, 50), report.Percentile(bare, 50)
	return report.Line{Name: name, Fields: []report.Field{
		{Key: "p50_ms", Value: report.Milliseconds(p50)},
		{Key: "p99_ms", Value: report.Milliseconds(report.Percentile(ours, 99))},
		{Key: "bare_kro_p50_ms", Value: report.Milliseconds(bareP50)},
		{Key: "bare_kro_p99_ms", Value: report.Milliseconds(report.Percentile(bare, 99))},
		{Key: "ratio", Value: float64(p50) / float64(bareP50)},
		{Key: "n", Value: len(ours)},
	}}
}

func raw(groups ...map[string][]time.Duration) map[string][]float64 {
	samples := map[string][]float64{}
	for i, g := range groups {
		for name, took := range g {
			for _, d := range took {
				key := fmt.Sprintf("%s-%s/ms", name, []string{"sequence", "burst"}[i])
				samples[key] = append(samples[key], report.Milliseconds(d))
			}
		}
	}
	return samples
}
