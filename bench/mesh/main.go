// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command mesh measures what the proxy in front of a Service adds to a request: next to nginx, which picks the upstream by a
// map of regular expressions over the header, to Go's reverse proxy, and to the upstream itself, on loopback. All lead the same requests, those of
// the last of so many sandboxes, to the same upstream; they take turns, and a figure is the median over the turns.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/sandbar-dev/sandbar/bench/load"
	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/rival"
	"github.com/sandbar-dev/sandbar/bench/stage"
)

type settings struct {
	turns      int
	long, warm time.Duration
	idle       int
}

// setting is one of what is measured.
type setting struct{ sandboxes, clients int }

var all = []setting{{1, 1}, {100, 1}, {1, 32}, {100, 32}}

func (s setting) String() string {
	return fmt.Sprintf("%d-sandboxes-%d-clients", s.sandboxes, s.clients)
}

func main() {
	var o settings
	flag.IntVar(&o.turns, "n", 7, "how many turns")
	flag.DurationVar(&o.long, "long", time.Second, "how long one measurement lasts")
	flag.DurationVar(&o.warm, "warm", 500*time.Millisecond, "how long each subject is warmed up")
	flag.IntVar(&o.idle, "idle", 10_000, "how many idle connections the proxy holds at the end")
	be := flag.String("be", "", "be a process of the benchmark instead: upstream, sandbar or httputil")
	listen := flag.String("listen", "", "where that listens")
	to := flag.String("to", "", "where it sends requests")
	sandboxes := flag.Int("sandboxes", 1, "how many sandboxes it knows")
	stage.Main("mesh", func(ctx context.Context, _, results string) error {
		if *be != "" {
			return serve(ctx, *be, *listen, *to, *sandboxes)
		}
		return run(ctx, results, o)
	})
}

func run(ctx context.Context, results string, o settings) error {
	dir, err := os.MkdirTemp("", "bench-mesh-")
	if err != nil {
		return fmt.Errorf("making a folder for nginx: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r, err := startRivals(ctx, dir)
	if err != nil {
		return err
	}
	defer r.Stop()
	b := bench{settings: o, rivals: r, runs: map[string][]load.Result{}}
	if err := b.measure(ctx); err != nil {
		return err
	}
	idle, err := b.idleMiB(ctx)
	if err != nil {
		return err
	}
	lines := []report.Line{b.headline(idle)}
	for _, s := range all {
		lines = append(lines, b.line(s))
	}
	return report.Write(os.Stdout, results, "mesh", b.samples(), lines...)
}

// bench runs the subjects in turns.
type bench struct {
	settings
	rivals *rivals
	runs   map[string][]load.Result // by setting and subject
}

func (b *bench) measure(ctx context.Context) error {
	for _, s := range []int{1, 100} {
		for _, subject := range b.rivals.subjects[s] {
			err := rival.Insist(func() error { _, err := load.Closed(ctx, subject, "/", 4, b.warm); return err })
			if err != nil {
				return err
			}
		}
	}
	for turn := range b.turns {
		for _, s := range all {
			for _, subject := range b.rivals.subjects[s.sandboxes] {
				got, err := load.Closed(ctx, subject, "/", s.clients, b.long)
				if err != nil {
					return err
				}
				key := s.String() + "/" + subject.Name
				b.runs[key] = append(b.runs[key], got)
				fmt.Fprintf(os.Stderr, "%d/%d %s %s: %.0f/s p50 %v p99 %v\n", turn+1, b.turns, s, subject.Name, got.Rate(),
					report.Sorted(got.Latencies, 50), report.Sorted(got.Latencies, 99))
			}
		}
	}
	return nil
}

// median is the median over the turns of one figure of a subject; 0 if it did not take part.
func (b *bench) median(s setting, subject string, of func(load.Result) float64) float64 {
	var values []float64
	for _, r := range b.runs[s.String()+"/"+subject] {
		values = append(values, of(r))
	}
	return report.Median(values)
}

func percentile(p float64) func(load.Result) float64 {
	return func(r load.Result) float64 {
		return float64(report.Sorted(r.Latencies, p).Nanoseconds()) / 1000
	}
}

// added is what a subject adds to the upstream's own time in the middle, in microseconds: the median over the turns of the
// difference within a turn, since what else the machine does changes from turn to turn.
func (b *bench) added(s setting, subject string) float64 {
	own, bare := b.runs[s.String()+"/"+subject], b.runs[s.String()+"/"+straight]
	var values []float64
	for i := range own {
		values = append(values, percentile(50)(own[i])-percentile(50)(bare[i]))
	}
	return report.Median(values)
}

// headline has what one client waits for, with one sandbox.
func (b *bench) headline(idle float64) report.Line {
	own := b.added(all[0], sandbar)
	fields := []report.Field{{Key: "proxy_added_us", Value: own}}
	if b.rivals.hasNginx {
		fields = append(fields, report.Field{Key: "vs_nginx", Value: own / b.added(all[0], nginx)})
	}
	return report.Line{Name: "mesh", Fields: append(fields,
		report.Field{Key: "vs_httputil", Value: own / b.added(all[0], httputilName)},
		report.Field{Key: fmt.Sprintf("idle_mib_%d", b.idle), Value: idle},
	)}
}

func (b *bench) line(s setting) report.Line {
	line := report.Line{Name: "mesh-" + s.String()}
	for _, subject := range b.rivals.subjects[s.sandboxes] {
		line.Fields = append(line.Fields,
			report.Field{Key: subject.Name + "_p50_us", Value: b.median(s, subject.Name, percentile(50))},
			report.Field{Key: subject.Name + "_p99_us", Value: b.median(s, subject.Name, percentile(99))},
			report.Field{Key: subject.Name + "_rps", Value: b.median(s, subject.Name, load.Result.Rate)})
		if subject.Name != straight {
			line.Fields = append(line.Fields, report.Field{Key: subject.Name + "_added_us", Value: b.added(s, subject.Name)})
		}
	}
	return line
}

// samples are each turn's rate and percentiles.
func (b *bench) samples() map[string][]float64 {
	samples := map[string][]float64{}
	for key, runs := range b.runs {
		for _, r := range runs {
			samples[key+"/rps"] = append(samples[key+"/rps"], r.Rate())
			samples[key+"/p50_us"] = append(samples[key+"/p50_us"], percentile(50)(r))
			samples[key+"/p99_us"] = append(samples[key+"/p99_us"], percentile(99)(r))
		}
	}
	return samples
}
