// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/rival"
	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

// manner is how single bytes are sent to the pod and awaited back.
type manner struct {
	name string
	// burst bytes go over one way, one after the other, before the next way has its turn; each way
	// has so many turns, in an order that is drawn anew each time.
	burst, turns int
	// pause comes before each byte.
	pause time.Duration
}

// manners differ in who sleeps. The kernel keeps processes that wake each other on one processor or
// apart, and where they are depends on how long a way has its turn; so an echo without pauses is
// measured with all lengths, which count alike. echo_alone is as somebody types: whoever is to read
// the byte sleeps.
var manners = []manner{
	{name: "echo", burst: 10, turns: 200},
	{name: "echo", burst: 100, turns: 20},
	{name: "echo", burst: 1000, turns: 4},
	{name: "echo", burst: 10000, turns: 2},
	{name: "echo_alone", burst: 1, turns: 100, pause: 10 * time.Millisecond},
}

// sleeping is what the names end in of echoes on processors that sleep as they like. What it takes
// to wake one is then on top, as often as a way has to: 25 µs each time in a virtual machine that
// leaves its processor at once, next to nothing where the kernel polls for a while first.
const sleeping = "_sleeping"

// echoNames are the names of all echoes.
func echoNames() []string {
	return []string{"echo", "echo_alone", "echo" + sleeping, "echo_alone" + sleeping}
}

// echoesAwake measures each manner so many times, on processors that do not sleep: what is added
// then is what the relay adds.
func (b *bench) echoesAwake(ctx context.Context, turns int) error {
	awake, err := keepAwake()
	if err != nil {
		return err
	}
	defer awake.Close()
	return b.echoes(ctx, turns, "")
}

// echoes measures each manner so many times, and adds the suffix to its name.
func (b *bench) echoes(ctx context.Context, turns int, suffix string) error {
	for range turns {
		for _, m := range manners {
			m.name += suffix
			if err := b.echo(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// echo measures all ways in one manner, and keeps each way's median, 99th percentile, and the
// processor time that a byte takes there and back.
func (b *bench) echo(ctx context.Context, m manner) error {
	conns, closeAll, err := b.open(ctx)
	defer closeAll()
	if err != nil {
		return err
	}
	before, err := b.used()
	if err != nil {
		return err
	}
	took := make([][]time.Duration, len(b.ways))
	for range m.turns {
		for _, i := range rand.Perm(len(b.ways)) {
			if took[i], err = exchange(conns[i], m, took[i]); err != nil {
				return err
			}
		}
	}
	after, err := b.used()
	if err != nil {
		return err
	}
	for i, w := range b.ways {
		b.keep(w, m.name+"_us", micros(report.Percentile(took[i], 50)))
		b.keep(w, m.name+"_p99_us", micros(report.Percentile(took[i], 99)))
		b.keep(w, m.name+"_cpu_us", micros(after[i]-before[i])/float64(len(took[i])))
	}
	b.say(m.name+"_us", strconv.Itoa(m.burst)+" in a turn")
	return nil
}

// used is the processor time of all ways' processes.
func (b *bench) used() ([]time.Duration, error) {
	used := make([]time.Duration, len(b.ways))
	for i, w := range b.ways {
		var err error
		if used[i], err = rival.CPU(b.pids[w.name]); err != nil {
			return nil, err
		}
	}
	return used, nil
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
			conn, _, err := b.stage.Switch(ctx, "/ws", w.route)
			if err == nil {
				conns = append(conns, rawconn.Of(conn))
			}
			return err
		}); err != nil {
			return conns, closeAll, fmt.Errorf("opening a connection, way %s: %w", w.name, err)
		}
	}
	return conns, closeAll, nil
}

// exchange sends a burst of single bytes and awaits each, and appends what each took.
func exchange(conn net.Conn, m manner, took []time.Duration) ([]time.Duration, error) {
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
