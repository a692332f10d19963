// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/rival"
)

// manner is how single bytes are sent to the pod and awaited back.
type manner struct {
	name string
	// burst bytes go over one way, one after the other, before the next way has its turn. Where a
	// kernel puts processes that wake each other, it keeps doing for a while; ways that take turns
	// every second meet different moods of it, and the medians jump from run to run.
	burst, bursts int
	// pause comes before each byte.
	pause time.Duration
	// awake keeps the processors from sleeping, as those of a server with more to do.
	awake bool
}

var manners = []manner{
	{name: "echo", burst: 1000, bursts: 4},
	// As somebody types: whoever is to read the byte sleeps, and so does the processor.
	{name: "echo_alone", burst: 1, bursts: 100, pause: 10 * time.Millisecond},
	{name: "echo_awake", burst: 1000, bursts: 4, awake: true},
}

// echoes measures all ways in one manner, and keeps each way's median, 99th percentile, and the
// processor time that a byte takes there and back.
func (b *bench) echoes(ctx context.Context, m manner) error {
	if m.awake {
		var loops rival.Group
		defer loops.Stop()
		if err := loops.KeepAwake(ctx); err != nil {
			return err
		}
	}
	conns, closeAll, err := b.open(ctx)
	defer closeAll()
	if err != nil {
		return err
	}
	took := make([][]time.Duration, len(b.ways))
	cpu := make([]time.Duration, len(b.ways))
	for range m.bursts {
		for i, w := range b.ways {
			before, err := rival.CPU(b.pids[w.name])
			if err != nil {
				return err
			}
			if took[i], err = echo(conns[i], m, took[i]); err != nil {
				return err
			}
			after, err := rival.CPU(b.pids[w.name])
			if err != nil {
				return err
			}
			cpu[i] += after - before
		}
	}
	for i, w := range b.ways {
		b.keep(w, m.name+"_us", micros(report.Percentile(took[i], 50)))
		b.keep(w, m.name+"_p99_us", micros(report.Percentile(took[i], 99)))
		b.keep(w, m.name+"_cpu_us", micros(cpu[i])/float64(len(took[i])))
	}
	return nil
}

// open opens a connection each way. What it returns closes those that were opened.
func (b *bench) open(ctx context.Context) (conns []net.Conn, closeAll func(), err error) {
	closeAll = func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	for _, w := range b.ways {
		if err := rival.Insist(func() error {
			conn, _, err := b.stage.Switch(ctx, "/ws", w.at)
			if err == nil {
				conns = append(conns, conn)
			}
			return err
		}); err != nil {
			return conns, closeAll, fmt.Errorf("opening a connection, way %s: %w", w.name, err)
		}
	}
	return conns, closeAll, nil
}

// echo sends a burst of single bytes and awaits each, and appends what each took.
func echo(conn net.Conn, m manner, took []time.Duration) ([]time.Duration, error) {
	b := make([]byte, 1)
	for range m.burst {
		time.Sleep(m.pause)
		sent := time.Now()
		if _, err := conn.Write(b); err != nil {
			return nil, fmt.Errorf("echoing: %w", err)
		}
		if _, err := io.ReadFull(conn, b); err != nil {
			return nil, fmt.Errorf("echoing: %w", err)
		}
		took = append(took, time.Since(sent))
	}
	return took, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
