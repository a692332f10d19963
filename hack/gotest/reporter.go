// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// quiet is how long nothing may be printed before it is said what runs.
const quiet = 25 * time.Second

// reporter prints what happens while the tests run.
type reporter struct {
	each bool

	mu    sync.Mutex
	out   io.Writer
	last  time.Time // when something was printed
	tests int       // that have ended
}

func newReporter(out io.Writer, each bool) *reporter {
	return &reporter{out: out, each: each, last: time.Now()}
}

func (t *reporter) print(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = time.Now()
	fmt.Fprintf(t.out, format, args...)
}

func (t *reporter) said(line string) { t.print("%s", line) }

// words are how outcomes are printed, in the width of the longest.
var words = map[outcome]string{passed: "ok  ", failed: "FAIL", skipped: "skip"}

func (t *reporter) ended(r *result) {
	if r.Test != "" {
		t.mu.Lock()
		t.tests++
		t.mu.Unlock()
	}
	if (r.Test != "") != t.each && r.Outcome != failed {
		return
	}
	name := cmp.Or(r.Test, r.Package)
	switch {
	case r.Outcome == skipped && r.Test == "": // a package without tests
	case r.Why != "":
		t.print("%s %7.1fs  %s: %s\n", words[r.Outcome], r.Seconds, name, r.Why)
	default:
		t.print("%s %7.1fs  %s\n", words[r.Outcome], r.Seconds, name)
	}
}

// beat has it said what runs whenever nothing was printed for a while, until stop is called.
func (t *reporter) beat(c *collector) (stop func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(quiet / 5)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				t.mu.Lock()
				late, tests := now.Sub(t.last) >= quiet, t.tests
				t.mu.Unlock()
				if late {
					t.print("…             %d tests have ended; %s\n", tests, c.now(now))
				}
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}

// mostShown is how many of the tests that run are named.
const mostShown = 8

// now says what runs, the longest first.
func (c *collector) now(now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var tests, packages []*result
	for _, r := range c.running {
		switch {
		case r.waits:
		case r.Test != "":
			tests = append(tests, r)
		default:
			packages = append(packages, r)
		}
	}
	if len(tests) == 0 {
		tests = packages
	}
	if len(tests) == 0 {
		return "none runs: packages are being built"
	}
	slices.SortFunc(tests, func(a, b *result) int { return a.began.Compare(b.began) })
	var names []string
	for _, r := range tests[:min(len(tests), mostShown)] {
		names = append(names, fmt.Sprintf("%s (%.0f s)", cmp.Or(r.Test, r.Package), now.Sub(r.began).Seconds()))
	}
	if more := len(tests) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return "now " + strings.Join(names, ", ")
}
