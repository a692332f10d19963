// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/runner/ringlog"
)

// output is what a container's stream got.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// mirrored runs a mirror over what write writes, and returns what the container's streams and the
// runner's log got.
func mirrored(t *testing.T, before string, write func(*ringlog.Ring)) (stdout, stderr, log string) {
	t.Helper()
	ring := ringlog.New(ringlog.DefaultCapacity)
	ring.Append(ringlog.Source{Stream: ringlog.Stdout}, time.Now(), []byte(before))
	var out, errs, told output
	ended := make(chan struct{})
	done := mirrorUntil(ended, ring, Config{Stdout: &out, Stderr: &errs}, slog.New(slog.NewTextHandler(&told, nil)))
	write(ring)
	close(ended)
	<-done
	return out.String(), errs.String(), told.String()
}

func TestTheContainersLogHasWhatTheAppPrints(t *testing.T) {
	stdout, stderr, log := mirrored(t, "of an earlier runner\n", func(ring *ringlog.Ring) {
		ring.Append(ringlog.Source{Stream: ringlog.Stdout}, time.Now(), []byte("one\n"))
		ring.Append(ringlog.Source{Stream: ringlog.Stderr}, time.Now(), []byte("two\n"))
		ring.Append(ringlog.Source{Stream: ringlog.Stdout}, time.Now(), []byte("three\n"))
	})
	if stdout != "one\nthree\n" || stderr != "two\n" || log != "" {
		t.Errorf("stdout %q, stderr %q, log %q", stdout, stderr, log)
	}
}

func TestAnAppThatPrintsTooMuchIsNotSlowedAndItsEndIsThere(t *testing.T) {
	const lines = 100_000
	stdout, _, log := mirrored(t, "", func(ring *ringlog.Ring) {
		for n := range lines { // it returns at once: nothing waits for the mirror
			ring.Append(ringlog.Source{Stream: ringlog.Stdout}, time.Now(), fmt.Appendf(nil, "line %06d of an app that prints a lot\n", n))
		}
	})
	if !strings.HasSuffix(stdout, fmt.Sprintf("line %06d of an app that prints a lot\n", lines-1)) {
		t.Errorf("the end is %.100q", stdout[max(0, len(stdout)-100):])
	}
	if most := mirrorBurst + 2*mirrorEnd; len(stdout) > most {
		t.Errorf("%d bytes were written, and at most %d may be at once", len(stdout), most)
	}
	if !strings.Contains(log, "leftOutBytes=") {
		t.Errorf("nothing is said of what was left out: %q", log)
	}
}

// stuck is an output that nobody takes.
type stuck struct{ ctx context.Context } //nolint:containedctx // of the test

func (s stuck) Write([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func TestAnOutputThatNobodyTakesHoldsNothingUp(t *testing.T) {
	ring := ringlog.New(ringlog.MinCapacity)
	ended := make(chan struct{})
	done := mirrorUntil(ended, ring, Config{Stdout: stuck{t.Context()}, Stderr: stuck{t.Context()}}, slog.New(slog.DiscardHandler))
	for range 10_000 {
		ring.Append(ringlog.Source{Stream: ringlog.Stdout}, time.Now(), []byte(strings.Repeat("x", 100)+"\n"))
	}
	close(ended)
	select {
	case <-done:
		t.Error("it was written")
	default:
	}
}
