// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress tells a person on stderr what is being done and how long it
// took. It knows nothing of what is being done.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Out is where progress goes.
var Out io.Writer = os.Stderr

var (
	start = time.Now()
	mu    sync.Mutex
)

// Say prints one line with the time since the program began.
func Say(format string, args ...any) {
	mu.Lock()
	defer mu.Unlock()
	fmt.Fprintf(Out, "%7.1fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
}

// heartbeat is how often a step that takes long says that it is still running.
const heartbeat = 15 * time.Second

// Step runs a step, and says so when it takes longer than a heartbeat and when
// it ends.
func Step(what string, run func() error) error {
	began := time.Now()
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				Say("  … %s, %s so far", what, time.Since(began).Round(time.Second))
			}
		}
	}()
	err := run()
	close(done)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	Say("%s (%.1f s)", what, time.Since(began).Seconds())
	return nil
}
