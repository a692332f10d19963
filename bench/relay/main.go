// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command relay measures upgraded connections through Sandbar next to straight ones to the same
// pod, to nginx and to a bare relay in Go, in turns: how much they carry, how long one byte takes
// there and back, and what 10,000 idle ones cost the data plane in memory.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
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
	stage.Main("relay", func(ctx context.Context, stack, results string) error {
		if *beRelay != "" {
			return serveRelay(ctx, *beRelay, *to)
		}
		return run(ctx, stack, results, *turns, *idle, *long)
	})
}

func run(ctx context.Context, name, results string, turns, idle int, long time.Duration) error {
	wanted := idle
	s, err := stage.New(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if most := stage.MaxStreams(); idle > most {
		fmt.Fprintf(os.Stderr, "the limit of open files leaves %d idle connections; what %d would cost is reckoned from them\n", most, idle)
		wanted, idle = idle, most
	}
	before, err := s.RSS(ctx)
	if err != nil {
		return err
	}
	closeAll, err := s.Idle(ctx, idle)
	if err != nil {
		return err
	}
	with, err := s.RSS(ctx)
	closeAll()
	if err != nil {
		return err
	}
	var rivals rival.Group
	defer rivals.Stop()
	ways, err := startRivals(ctx, s, &rivals)
	if err != nil {
		return err
	}
	b := bench{stage: s, long: long, pids: rivals.PIDs, samples: map[string][]float64{"idle/mib": {before, with}}}
	for turn := range turns {
		for _, w := range ways {
			if err := b.turn(ctx, w); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%d/%d %s: %.0f Mbit/s, echo %.0f µs, awake %.0f µs\n", turn+1, turns, w.name,
				b.last(w, "mbps"), b.last(w, "echo_us"), b.last(w, "echo_awake_us"))
		}
	}
	fields := append(b.fields(ways),
		report.Field{Key: fmt.Sprintf("idle_%dk_mib", wanted/1000), Value: before + (with-before)*float64(wanted)/float64(idle)},
		report.Field{Key: "idle", Value: idle},
		report.Field{Key: "per_idle_kib", Value: (with - before) * 1024 / float64(idle)})
	return report.Write(os.Stdout, results, "relay", b.samples, report.Line{Name: "relay", Fields: fields})
}

// bench takes the ways in turns.
type bench struct {
	stage   *stage.Stage
	long    time.Duration
	pids    map[string]int
	samples map[string][]float64 // by way and figure
}

func (b *bench) turn(ctx context.Context, w way) error {
	rate, err := throughput(ctx, b.stage, w.at, b.long)
	if err != nil {
		return err
	}
	before := rival.CPU(b.pids[w.name])
	took, err := echo(ctx, b.stage, w.at, b.long)
	if err != nil {
		return err
	}
	cpu := rival.CPU(b.pids[w.name]) - before
	awake, err := b.awake(ctx, w)
	if err != nil {
		return err
	}
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	for figure, value := range map[string]float64{
		"mbps": rate, "echo_us": micros(report.Percentile(took, 50)), "echo_p99_us": micros(report.Percentile(took, 99)),
		"echo_cpu_us": micros(cpu) / float64(len(took)), "echo_awake_us": micros(report.Percentile(awake, 50)),
	} {
		b.samples[w.name+"/"+figure] = append(b.samples[w.name+"/"+figure], value)
	}
	return nil
}

// awake is echo on processors that do not sleep, as those of a server with more to do.
func (b *bench) awake(ctx context.Context, w way) ([]time.Duration, error) {
	var loops rival.Group
	defer loops.Stop()
	if err := loops.KeepAwake(ctx); err != nil {
		return nil, err
	}
	return echo(ctx, b.stage, w.at, b.long)
}

func (b *bench) last(w way, figure string) float64 {
	all := b.samples[w.name+"/"+figure]
	return all[len(all)-1]
}

// fields are the medians of Sandbar, and of the others what tells how much of its figures any
// relay would have.
func (b *bench) fields(ways []way) []report.Field {
	median := func(way, figure string) float64 { return report.Median(b.samples[way+"/"+figure]) }
	fields := []report.Field{
		{Key: "mbps", Value: median(sandbar, "mbps")},
		{Key: "vs_direct", Value: median(sandbar, "mbps") / median(direct, "mbps")},
		{Key: "echo_added_us", Value: median(sandbar, "echo_us") - median(direct, "echo_us")},
		{Key: "echo_awake_added_us", Value: median(sandbar, "echo_awake_us") - median(direct, "echo_awake_us")},
		{Key: "echo_us", Value: median(sandbar, "echo_us")},
		{Key: "echo_p99_us", Value: median(sandbar, "echo_p99_us")},
		{Key: "echo_cpu_us", Value: median(sandbar, "echo_cpu_us")},
	}
	for _, w := range ways {
		if w.name == sandbar || w.name == direct {
			continue
		}
		fields = append(fields,
			report.Field{Key: w.name + "_mbps", Value: median(w.name, "mbps")},
			report.Field{Key: w.name + "_echo_added_us", Value: median(w.name, "echo_us") - median(direct, "echo_us")},
			report.Field{Key: w.name + "_echo_awake_added_us", Value: median(w.name, "echo_awake_us") - median(direct, "echo_awake_us")},
			report.Field{Key: w.name + "_echo_cpu_us", Value: median(w.name, "echo_cpu_us")})
	}
	return fields
}

// throughput is what one connection carries from the pod, in megabits per second.
func throughput(ctx context.Context, s *stage.Stage, at string, long time.Duration) (float64, error) {
	conn, in, err := s.Switch(ctx, "/source", at)
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

// echo is how long one byte takes to the pod and back, again and again.
func echo(ctx context.Context, s *stage.Stage, at string, long time.Duration) ([]time.Duration, error) {
	conn, _, err := s.Switch(ctx, "/ws", at)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var all []time.Duration
	b := make([]byte, 1)
	for start := time.Now(); time.Since(start) < long; {
		sent := time.Now()
		if _, err := conn.Write(b); err != nil {
			return nil, fmt.Errorf("echoing: %w", err)
		}
		if _, err := io.ReadFull(conn, b); err != nil {
			return nil, fmt.Errorf("echoing: %w", err)
		}
		all = append(all, time.Since(sent))
	}
	return all, nil
}
