// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command relay measures upgraded connections through Sandbar next to straight ones to the same
// pod, to nginx and to a bare relay in Go, in turns: how much they carry, how long one byte takes
// there and back, and what 10,000 idle ones cost the data plane in memory.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/rival"
	"github.com/sandbar-dev/sandbar/bench/stage"
)

func main() {
	turns := flag.Int("n", 5, "how many turns")
	long := flag.Duration("long", 2*time.Second, "how long one measurement lasts")
	idle := flag.Int("idle", 10000, "how many idle connections")
	beRelay := flag.String("be-relay", "", "be the bare relay instead, at this address")
	to := flag.String("to", "", "where the bare relay leads")
	other := flag.String("other", "", "another build of sandbar-provider, measured in the same turns")
	stage.Main("relay", func(ctx context.Context, stack, results string) error {
		if *beRelay != "" {
			return serveRelay(ctx, *beRelay, *to)
		}
		return run(ctx, stack, results, *other, *turns, *idle, *long)
	})
}

func run(ctx context.Context, name, results, other string, turns, idle int, long time.Duration) error {
	s, err := stage.New(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if other != "" {
		if err := s.StartOther(ctx, other); err != nil {
			return err
		}
	}
	var rivals rival.Group
	defer rivals.Stop()
	ways, err := startRivals(ctx, s, &rivals)
	if err != nil {
		return err
	}
	b := bench{stage: s, ways: ways, pids: rivals.PIDs, samples: map[string][]float64{}}
	if err := b.turns(ctx, turns, long); err != nil {
		return err
	}
	sleeping, err := b.idle(ctx, idle)
	if err != nil {
		return err
	}
	return report.Write(os.Stdout, results, "relay", b.samples, report.Line{Name: "relay", Fields: append(b.fields(), sleeping...)})
}

// bench takes the ways in turns.
type bench struct {
	stage   *stage.Stage
	ways    []way
	pids    map[string]int
	samples map[string][]float64 // by way and figure
}

// turns measures each figure so many times. Bulk comes after the echoes: for a while after it the
// kernel spreads processes over processors that it had kept together.
func (b *bench) turns(ctx context.Context, turns int, long time.Duration) error {
	if err := b.echoesAwake(ctx, turns); err != nil {
		return err
	}
	if err := b.echoes(ctx, turns, sleeping); err != nil {
		return err
	}
	for turn := range turns {
		for _, w := range b.ways {
			rate, err := throughput(ctx, b.stage, w.route, long)
			if err != nil {
				return err
			}
			b.keep(w, "mbps", rate)
		}
		b.say("mbps", fmt.Sprintf("%d/%d", turn+1, turns))
	}
	return nil
}

// idle opens idle connections and tells what they cost the data plane.
func (b *bench) idle(ctx context.Context, wanted int) ([]report.Field, error) {
	n := min(wanted, stage.MaxStreams())
	if n < wanted {
		fmt.Fprintf(os.Stderr, "the limit of open files leaves %d idle connections; what %d would cost is reckoned from them\n", n, wanted)
	}
	before, err := b.stage.RSS(ctx)
	if err != nil {
		return nil, err
	}
	closeAll, err := b.stage.Idle(ctx, n)
	if err != nil {
		return nil, err
	}
	with, err := b.stage.RSS(ctx)
	closeAll()
	if err != nil {
		return nil, err
	}
	b.samples["idle/mib"] = []float64{before, with}
	each := (with - before) / float64(n)
	return []report.Field{
		{Key: fmt.Sprintf("idle_%dk_mib", wanted/1000), Value: before + each*float64(wanted)},
		{Key: "idle", Value: n},
		{Key: "per_idle_kib", Value: each * 1024},
	}, nil
}

func (b *bench) keep(w way, figure string, value float64) {
	b.samples[w.name+"/"+figure] = append(b.samples[w.name+"/"+figure], value)
}

// say tells what was measured last.
func (b *bench) say(figure, of string) {
	fmt.Fprintf(os.Stderr, "%s, %s:", figure, of)
	for _, w := range b.ways {
		samples := b.samples[w.name+"/"+figure]
		fmt.Fprintf(os.Stderr, " %s %.0f", w.name, samples[len(samples)-1])
	}
	fmt.Fprintln(os.Stderr)
}

// fields are the medians of Sandbar, and of the others what tells how much of its figures any
// relay would have.
func (b *bench) fields() []report.Field {
	median := func(way, figure string) float64 { return report.Median(b.samples[way+"/"+figure]) }
	fields := []report.Field{
		{Key: "mbps", Value: median(sandbar, "mbps")},
		{Key: "vs_direct", Value: median(sandbar, "mbps") / median(direct, "mbps")},
	}
	for _, m := range echoNames() {
		fields = append(fields,
			report.Field{Key: m + "_added_us", Value: report.Median(b.added(sandbar, m))},
			report.Field{Key: m + "_us", Value: median(sandbar, m+"_us")},
			report.Field{Key: m + "_p99_us", Value: median(sandbar, m+"_p99_us")},
			report.Field{Key: m + "_cpu_us", Value: median(sandbar, m+"_cpu_us")})
	}
	for _, w := range b.ways {
		if w.name == sandbar || w.name == direct {
			continue
		}
		fields = append(fields, report.Field{Key: w.name + "_mbps", Value: median(w.name, "mbps")})
		for _, m := range echoNames() {
			fields = append(fields,
				report.Field{Key: w.name + "_" + m + "_added_us", Value: report.Median(b.added(w.name, m))},
				report.Field{Key: w.name + "_" + m + "_cpu_us", Value: median(w.name, m+"_cpu_us")})
		}
	}
	return fields
}

// added is what a way took longer than the straight one, in each of the times that it was measured.
func (b *bench) added(way, manner string) []float64 {
	straight := b.samples[direct+"/"+manner+"_us"]
	added := slices.Clone(b.samples[way+"/"+manner+"_us"])
	for i := range added {
		added[i] -= straight[i]
	}
	return added
}

// throughput is what one connection carries from the pod, in megabits per second.
func throughput(ctx context.Context, s *stage.Stage, route stage.Route, long time.Duration) (float64, error) {
	conn, in, err := s.Switch(ctx, "/source", route)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := in.Discard(in.Buffered()); err != nil {
		return 0, err
	}
	buf := make([]byte, 256<<10)
	total, start := 0, time.Now()
	for time.Since(start) < long {
		n, err := conn.Read(buf)
		if err != nil {
			return 0, fmt.Errorf("reading: %w", err)
		}
		total += n
	}
	return float64(total) * 8 / 1e6 / time.Since(start).Seconds(), nil
}
