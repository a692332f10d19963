// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command proxy measures requests to a pod: straight, through nginx, through Go's reverse proxy
// bare and tuned, through the API server's service proxy, and through Sandbar with authorization,
// audit, access lines and metrics on. The same pod is behind all; they take turns, and a figure is
// the median over the turns.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sandbar-dev/sandbar/bench/load"
	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/rival"
	"github.com/sandbar-dev/sandbar/bench/stage"
)

type settings struct {
	turns       int
	connections int
	long, warm  time.Duration
	other       string
}

func main() {
	var o settings
	flag.IntVar(&o.turns, "n", 5, "how many turns")
	flag.IntVar(&o.connections, "connections", 16, "connections of the closed loop")
	flag.DurationVar(&o.long, "long", 2*time.Second, "how long one measurement lasts")
	flag.DurationVar(&o.warm, "warm", time.Second, "how long each subject is warmed up")
	flag.StringVar(&o.other, "other", "", "another build of sandbar-provider, measured in the same turns")
	be := flag.String("be", "", "be a rival instead: httputil or httputil-tuned")
	listen := flag.String("listen", "", "where the rival listens")
	to := flag.String("to", "", "where the rival sends requests")
	stage.Main("proxy", func(ctx context.Context, stack, results string) error {
		if *be != "" {
			return serveReverseProxy(ctx, *be, *listen, *to)
		}
		return run(ctx, stack, results, o)
	})
}

func run(ctx context.Context, stack, results string, o settings) error {
	dir, err := os.MkdirTemp("", "bench-proxy-")
	if err != nil {
		return fmt.Errorf("making a folder for the audit log: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := stage.New(ctx, stack, "--audit-log", filepath.Join(dir, "audit.log"))
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if o.other != "" {
		if err := s.StartOther(ctx, o.other, "--audit-log", filepath.Join(dir, "other.log")); err != nil {
			return err
		}
	}
	rivals, err := startRivals(ctx, s)
	if err != nil {
		return err
	}
	defer rivals.Stop()
	b := bench{settings: o, subjects: rivals.subjects, pids: rivals.PIDs, cost: map[string][]float64{}, runs: map[string][]load.Result{}}
	lines, err := b.all(ctx)
	if err != nil {
		return err
	}
	return report.Write(os.Stdout, results, "proxy", b.samples(), lines...)
}

// bench runs the subjects in turns.
type bench struct {
	settings
	subjects []load.Subject
	pids     map[string]int
	cost     map[string][]float64     // processor time per request in microseconds
	runs     map[string][]load.Result // by what and subject
}

const small, large = "/bytes/1024", "/bytes/20480"

func (b *bench) all(ctx context.Context) ([]report.Line, error) {
	for _, s := range b.subjects {
		fmt.Fprintln(os.Stderr, "warming up", s.Name)
		err := rival.Insist(func() error { _, err := load.Closed(ctx, s, small, b.connections, b.warm); return err })
		if _, err := b.figure(load.Result{}, err); err != nil {
			return nil, err
		}
	}
	closed := func(path string) func(load.Subject) (load.Result, error) {
		return func(s load.Subject) (load.Result, error) { return load.Closed(ctx, s, path, b.connections, b.long) }
	}
	if err := b.turnsOf("closed-1k", closed(small)); err != nil {
		return nil, err
	}
	if err := b.turnsOf("closed-20k", closed(large)); err != nil {
		return nil, err
	}
	lines := []report.Line{b.line("proxy", "closed-1k"), b.line("proxy-20k", "closed-20k")}
	for _, open := range []struct{ what, from, path string }{{"open-1k", "closed-1k", small}, {"open-20k", "closed-20k", large}} {
		rate := b.lowest(open.from) / 2
		err := b.turnsOf(open.what, func(s load.Subject) (load.Result, error) {
			return load.Open(ctx, s, open.path, b.connections, rate, b.long)
		})
		if err != nil {
			return nil, err
		}
		lines = append(lines, b.latencies("proxy-"+open.what, open.what))
	}
	return lines, nil
}

func (b *bench) turnsOf(what string, measure func(load.Subject) (load.Result, error)) error {
	for turn := range b.turns {
		for _, s := range b.subjects {
			before, err := rival.CPU(b.pids[s.Name])
			if err != nil {
				return err
			}
			got, err := b.figure(measure(s))
			if err != nil {
				return err
			}
			after, err := rival.CPU(b.pids[s.Name])
			if err != nil {
				return err
			}
			if used := after - before; used > 0 && len(got.Latencies) > 0 {
				key := what + "/" + s.Name
				b.cost[key] = append(b.cost[key], float64(used.Nanoseconds())/1000/float64(len(got.Latencies)))
			}
			b.runs[what+"/"+s.Name] = append(b.runs[what+"/"+s.Name], got)
			fmt.Fprintf(os.Stderr, "%s %d/%d %s: %.0f/s p50 %v p99 %v failed %d\n", what, turn+1, b.turns, s.Name, got.Rate(),
				report.Sorted(got.Latencies, 50), report.Sorted(got.Latencies, 99), got.Failed)
		}
	}
	return nil
}

// figure takes failures of a rival for one: they say something of it, and end nothing. Sandbar's own
// end the benchmark.
func (b *bench) figure(got load.Result, err error) (load.Result, error) {
	var failed *load.FailedError
	if errors.As(err, &failed) && failed.Name != sandbar {
		fmt.Fprintln(os.Stderr, err)
		return got, nil
	}
	return got, err
}

// median is the median over the turns of one figure of a subject; 0 if it did not take part.
func (b *bench) median(what, subject string, of func(load.Result) float64) float64 {
	var values []float64
	for _, r := range b.runs[what+"/"+subject] {
		values = append(values, of(r))
	}
	return report.Median(values)
}

func percentile(p float64) func(load.Result) float64 {
	return func(r load.Result) float64 {
		return float64(report.Sorted(r.Latencies, p).Nanoseconds()) / 1000
	}
}

func (b *bench) rate(what, subject string) float64 { return b.median(what, subject, load.Result.Rate) }

// lowest is the rate of the slowest of those that answer all requests.
func (b *bench) lowest(what string) float64 {
	lowest := b.rate(what, sandbar)
	for _, s := range b.subjects {
		if b.failed(what, s.Name) == 0 {
			lowest = min(lowest, b.rate(what, s.Name))
		}
	}
	return lowest
}

// failed is the share of a subject's requests that failed, over all turns.
func (b *bench) failed(what, subject string) float64 {
	var failed, all int
	for _, r := range b.runs[what+"/"+subject] {
		failed, all = failed+r.Failed, all+r.Failed+len(r.Latencies)
	}
	if all == 0 {
		return 0
	}
	return float64(failed) / float64(all)
}

func (b *bench) line(name, what string) report.Line {
	own := b.rate(what, sandbar)
	fields := []report.Field{
		{Key: "rps", Value: own},
		{Key: "p50_us", Value: b.median(what, sandbar, percentile(50))},
		{Key: "p99_us", Value: b.median(what, sandbar, percentile(99))},
		// Against the better of the two ways to use it.
		{Key: "vs_httputil", Value: own / max(b.rate(what, httputilBare), b.rate(what, httputilTuned))},
		{Key: "vs_httputil_bare", Value: own / b.rate(what, httputilBare)},
	}
	for _, rival := range []string{nginx, apiServer, thePod, other} {
		if r := b.rate(what, rival); r > 0 {
			fields = append(fields, report.Field{Key: "vs_" + rival, Value: own / r})
		}
	}
	for _, s := range b.subjects {
		fields = append(fields, report.Field{Key: s.Name + "_rps", Value: b.rate(what, s.Name)})
	}
	fields = append(fields, b.failures(what)...)
	for _, s := range b.subjects {
		if cost := report.Median(b.cost[what+"/"+s.Name]); cost > 0 {
			fields = append(fields, report.Field{Key: s.Name + "_cpu_us", Value: cost})
		}
	}
	return report.Line{Name: name, Fields: fields}
}

func (b *bench) latencies(name, what string) report.Line {
	fields := []report.Field{{Key: "rps", Value: b.rate(what, sandbar)}}
	for _, s := range b.subjects {
		fields = append(fields,
			report.Field{Key: s.Name + "_p50_us", Value: b.median(what, s.Name, percentile(50))},
			report.Field{Key: s.Name + "_p99_us", Value: b.median(what, s.Name, percentile(99))})
	}
	return report.Line{Name: name, Fields: append(fields, b.failures(what)...)}
}

// failures are the shares of requests that failed, of those subjects of which some did. Rates and
// times are those of the others.
func (b *bench) failures(what string) (fields []report.Field) {
	for _, s := range b.subjects {
		if share := b.failed(what, s.Name); share > 0 {
			fields = append(fields, report.Field{Key: s.Name + "_failed_share", Value: share})
		}
	}
	return fields
}

// samples are each turn's rate and percentiles; all latencies would be millions.
func (b *bench) samples() map[string][]float64 {
	all := map[string][]float64{}
	for key, cost := range b.cost {
		all[key+"/cpu_us"] = cost
	}
	for key, runs := range b.runs {
		for _, r := range runs {
			all[key+"/rps"] = append(all[key+"/rps"], r.Rate())
			all[key+"/p50_us"] = append(all[key+"/p50_us"], percentile(50)(r))
			all[key+"/p99_us"] = append(all[key+"/p99_us"], percentile(99)(r))
		}
	}
	return all
}
