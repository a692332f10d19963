// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

// Half of the lines are written before the runner is killed, half by the next one. Each half is
// more than twice what the log holds, so that it wraps around.
const (
	crowdLines = 50_000
	slowOnes   = 10 // one of so many followers is slow
)

// crowd is what happened to many followers together.
type crowd struct {
	// lost counts lines that a follower did not get and was not told of, twice those that it got
	// more than once.
	lost, twice int
	// withGaps counts the followers that were told of a gap.
	withGaps int
}

// follower checks that each line comes once and in order, or lies in a gap.
type follower struct {
	slow        bool
	next        int // the line that has to come
	lost, twice int
	gaps        int
	gap         bool // told since the last line
}

// follow lets n followers read while the app writes, the runner is killed, and its next one goes
// on. half is called before the runner is killed.
func follow(ctx context.Context, s *stage.Stage, person *stage.Person, n int, half func()) (*crowd, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	var (
		reading   sync.WaitGroup
		mu        sync.Mutex
		errs      []error
		all       = make([]*follower, n)
		connected = make(chan struct{}, n)
		written   = make(chan struct{})
	)
	for i := range all {
		f := &follower{slow: i%slowOnes == 0}
		all[i] = f
		reading.Go(func() {
			if err := f.read(ctx, person, func() { connected <- struct{}{} }, written); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("follower %d at line %d: %w", i, f.next, err))
				cancel()
			}
		})
	}
	for range all {
		select {
		case <-connected:
		case <-ctx.Done():
		}
	}
	if err := s.Tell(ctx, fmt.Sprintf("/flood/%d?from=0", crowdLines/2)); err != nil {
		return nil, err
	}
	if err := replace(ctx, s, half); err != nil {
		return nil, err
	}
	if err := s.Tell(ctx, fmt.Sprintf("/flood/%d?from=%d", crowdLines/2, crowdLines/2)); err != nil {
		return nil, err
	}
	close(written)
	reading.Wait()
	c := &crowd{}
	for _, f := range all {
		c.lost += f.lost
		c.twice += f.twice
		if f.gaps > 0 {
			c.withGaps++
		}
	}
	return c, errors.Join(errs...)
}

// read follows until the last line. A slow one stops reading at its first line until all is
// written.
func (f *follower) read(ctx context.Context, person *stage.Person, connected func(), written <-chan struct{}) error {
	c, instance, err := person.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	none, first := 0, true
	for e, err := range instance.Logs(ctx, client.LogOptions{Follow: true, Wait: true, Tail: &none, Stream: "stdout"}) {
		switch {
		case err != nil:
			return err
		case e.Type == client.LogConnected && first:
			connected()
			first = false
		case e.Type == client.LogGap, e.Type == client.LogReplaced:
			f.gaps++
			f.gap = true
		case e.Type == client.LogOutput:
			eachLine(e.Record.Data, f.line)
			if f.slow && f.next > 0 {
				select {
				case <-written:
				case <-ctx.Done():
				}
			}
		}
		if f.next == crowdLines {
			return nil
		}
	}
	return ctx.Err()
}

func (f *follower) line(text []byte) {
	n, ok := number(text)
	switch {
	case !ok:
		return // the runner's own line, or the rest of one that lies in a gap
	case n < f.next:
		f.twice++
		return
	case n > f.next && !f.gap:
		f.lost += n - f.next
	}
	f.next, f.gap = n+1, false
}

// replace kills the runner and returns when the next one's app answers.
func replace(ctx context.Context, s *stage.Stage, before func()) error {
	runner, err := s.Runner(ctx)
	if err != nil {
		return err
	}
	process, err := os.FindProcess(runner.PID)
	if err != nil {
		return err
	}
	// What the app wrote last is read within this time; what it writes while there is no runner
	// is lost, as documented.
	if err := pause.For(ctx, time.Second); err != nil {
		return err
	}
	before()
	if err := process.Kill(); err != nil {
		return fmt.Errorf("killing the runner: %w", err)
	}
	return stage.Insist(ctx, func(ctx context.Context) error {
		now, err := s.Runner(ctx)
		if err != nil {
			return err
		}
		if now.PID == runner.PID {
			return errors.New("the runner is there still")
		}
		return s.Tell(ctx, "/lines/0?every=1s")
	})
}
