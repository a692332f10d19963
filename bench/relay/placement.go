// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/sandbar-dev/sandbar/bench/rival"
)

// placements are the ways in which caller, pod and a relay can lie on two processors, the caller on
// the first. Straight to the pod takes 14 µs where both are on one, and 70 where they are not, since
// each message then wakes a processor; so what a relay adds is only clear where all are known.
var placements = []struct {
	name       string
	pod, relay int
}{
	{"echo_one_processor", 0, 0},
	{"echo_relay_apart", 0, 1},
	{"echo_relay_with_caller", 1, 0},
	{"echo_relay_with_pod", 1, 1},
}

func placementNames() []string {
	names := make([]string, len(placements))
	for i, p := range placements {
		names[i] = p.name
	}
	return names
}

// placed measures the echo in each placement.
func (b *bench) placed(ctx context.Context) error {
	runner, err := b.stage.Runner(ctx)
	if err != nil {
		return err
	}
	defer b.spread(runner.PID)
	for _, p := range placements {
		if err := b.place(runner.PID, p.pod, p.relay); err != nil {
			return err
		}
		if err := b.echo(ctx, manner{name: p.name, burst: 200, turns: 10}); err != nil {
			return err
		}
	}
	return nil
}

// place puts this process on processor 0, the pod's and the relays' on others.
func (b *bench) place(runner, pod, relay int) error {
	if n := runtime.NumCPU(); n < 2 {
		return fmt.Errorf("placing processes: there is %d processor", n)
	}
	if err := rival.Place(os.Getpid(), 0); err != nil {
		return err
	}
	if err := rival.Place(runner, pod); err != nil {
		return err
	}
	for _, pid := range b.pids {
		if err := rival.Place(pid, relay); err != nil {
			return err
		}
	}
	return nil
}

// spread lets the kernel decide again.
func (b *bench) spread(runner int) {
	all := make([]int, runtime.NumCPU())
	for n := range all {
		all[n] = n
	}
	for _, pid := range b.pids {
		_ = rival.Place(pid, all...)
	}
	_ = rival.Place(runner, all...)
	_ = rival.Place(os.Getpid(), all...)
}
