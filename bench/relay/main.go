// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command relay measures upgraded connections through Sandbar next to straight ones to the same
// pod, in turns: how much they carry, how long one byte takes there and back, and what 10,000 idle
// ones cost the data plane in memory.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
)

func main() {
	name := flag.String("stack", "dev", "name of the local stack")
	results := flag.String("results", "bench/results", "folder for the results")
	turns := flag.Int("n", 5, "how many turns")
	long := flag.Duration("long", 2*time.Second, "how long one measurement lasts")
	idle := flag.Int("idle", 10000, "how many idle connections")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *name, *results, *turns, *idle, *long); err != nil {
		fmt.Fprintf(os.Stderr, "bench-relay: %v\n", err)
		os.Exit(1)
	}
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
	samples := map[string][]float64{"idle/mib": {before, with}}
	for turn := range turns {
		for _, way := range []string{"relay", "direct"} {
			rate, err := throughput(ctx, s, way == "direct", long)
			if err != nil {
				return err
			}
			there, err := echo(ctx, s, way == "direct", long)
			if err != nil {
				return err
			}
			samples[way+"/mbps"] = append(samples[way+"/mbps"], rate)
			samples[way+"/echo_us"] = append(samples[way+"/echo_us"], there)
			fmt.Fprintf(os.Stderr, "%d/%d %s: %.0f Mbit/s, echo %.0f µs\n", turn+1, turns, way, rate, there)
		}
	}
	median := func(key string) float64 { return report.Median(samples[key]) }
	return report.Write(os.Stdout, results, "relay", samples, report.Line{Name: "relay", Fields: []report.Field{
		{Key: "mbps", Value: median("relay/mbps")},
		{Key: "vs_direct", Value: median("relay/mbps") / median("direct/mbps")},
		{Key: "echo_added_us", Value: median("relay/echo_us") - median("direct/echo_us")},
		{Key: "echo_us", Value: median("relay/echo_us")},
		{Key: fmt.Sprintf("idle_%dk_mib", wanted/1000), Value: before + (with-before)*float64(wanted)/float64(idle)},
		{Key: "idle", Value: idle},
		{Key: "per_idle_kib", Value: (with - before) * 1024 / float64(idle)},
	}})
}

// throughput is what one connection carries from the pod, in megabits per second.
func throughput(ctx context.Context, s *stage.Stage, straight bool, long time.Duration) (float64, error) {
	conn, in, err := s.Switch(ctx, "/source", straight)
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

// echo is the median time of one byte to the pod and back, in microseconds.
func echo(ctx context.Context, s *stage.Stage, straight bool, long time.Duration) (float64, error) {
	conn, _, err := s.Switch(ctx, "/ws", straight)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var all []time.Duration
	b := make([]byte, 1)
	for start := time.Now(); time.Since(start) < long; {
		sent := time.Now()
		if _, err := conn.Write(b); err != nil {
			return 0, fmt.Errorf("echoing: %w", err)
		}
		if _, err := io.ReadFull(conn, b); err != nil {
			return 0, fmt.Errorf("echoing: %w", err)
		}
		all = append(all, time.Since(sent))
	}
	return float64(report.Percentile(all, 50).Nanoseconds()) / 1000, nil
}
