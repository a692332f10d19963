// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// run runs the tests, those that failed once more, and reports; green is false if the run is red.
func run(ctx context.Context, s settings, out io.Writer) (green bool, err error) {
	before, err := flakyIn(s.report)
	if err != nil {
		return false, err
	}
	excused, err := readQuarantine(s.quarantine, time.Now())
	if err != nil {
		return false, err
	}
	events, err := openEvents(s.events)
	if err != nil {
		return false, err
	}
	defer events.Close()
	first, exited, err := goTest(ctx, s, s.packages, nil, out, events)
	if err != nil {
		return false, err
	}
	tests, packages, isFinal := first.failures()
	if !isFinal {
		tests = excuse(tests, excused)
	}
	red := packages
	switch {
	case len(tests) == 0 && len(packages) == 0:
		if exited != nil {
			return false, fmt.Errorf("go test: %w", exited)
		}
	case isFinal, ctx.Err() != nil:
		red = append(red, tests...)
	case before+len(tests) > mostFlaky:
		fmt.Fprintf(out, "%d tests failed, more than %d with those that were flaky before: none is run once more\n", len(tests), mostFlaky)
		red = append(red, tests...)
	default:
		if red, err = again(ctx, s, tests, out, events); err != nil {
			red = append(red, tests...)
		}
	}
	if len(red) == 0 {
		for _, r := range packages {
			r.Outcome = passed // all of its failures were flaky or are in quarantine
		}
	}
	show(out, red)
	for _, r := range first.results {
		if mark := marks[r.Outcome]; mark != "" {
			fmt.Fprintf(out, "%s %s %s\n", mark, r.Test, r.Why)
		}
	}
	return len(red) == 0, errors.Join(err, write(s.report, first.results))
}

// again runs failed tests once more, alone. Those that pass become flaky; the others are returned.
func again(ctx context.Context, s settings, tests []*result, out, events io.Writer) ([]*result, error) {
	var red []*result
	for _, r := range tests {
		fmt.Fprintf(out, "%s failed, and is run once more, alone: %s\n", r.Test, r.reason())
		if s.before != "" {
			cmd := exec.CommandContext(ctx, "bash", "-c", s.before)
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Run(); err != nil {
				return red, fmt.Errorf("running %q before %s: %w", s.before, r.Test, err)
			}
		}
		alone := []string{"-count=1", "-run=^" + regexp.QuoteMeta(r.Test) + "$"}
		second, exited, err := goTest(ctx, s, []string{r.Package}, alone, out, events)
		if err != nil {
			return red, err
		}
		ran := slices.ContainsFunc(second.results, func(a *result) bool { return a.Test == r.Test && a.Outcome == passed })
		if exited != nil || !ran {
			tests, packages, _ := second.failures()
			red = append(red, r)
			red = append(red, append(tests, packages...)...)
			continue
		}
		r.Outcome, r.Why = flaky, r.reason()
	}
	return red, nil
}

// goTest runs go test for packages and collects its results. The second result is how it exited.
func goTest(ctx context.Context, s settings, packages, more []string, out, events io.Writer) (c *collector, exited, err error) {
	to := newReporter(out, s.each)
	c = &collector{stage: s.stage, to: to, running: map[string]*result{}}
	args := slices.Concat([]string{"test", "-json"}, s.flags, more, packages)
	cmd := exec.CommandContext(ctx, "go", args...)
	// Told to end, the tests' own programs are told too, as from a terminal: go test only waits for them. Those
	// that have not ended in order after a while are killed.
	inGroup(cmd)
	cmd.Cancel = func() error { return interrupt(cmd) }
	cmd.Stderr = out
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting go test: %w", err)
	}
	stop := to.beat(c)
	unkilled := killLater(ctx, cmd)
	err = c.collect(stdout, events)
	exited = cmd.Wait()
	unkilled()
	stop()
	return c, exited, err
}

// endingFor is how long tests that were told to end may take for it.
const endingFor = time.Minute

// killLater kills a command and its tests a while after ctx has ended, unless the function that it returns is called
// before.
func killLater(ctx context.Context, cmd *exec.Cmd) (cancel func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(endingFor):
			kill(cmd)
		case <-over:
		}
	})
	return func() { stop(); close(over) }
}

// shownLines is how many of the last lines of a failure are shown.
const shownLines = 120

// show prints why the run is red: the last that is read of a long log.
func show(out io.Writer, red []*result) {
	for _, r := range red {
		name := r.Package
		if r.Test != "" {
			name = r.Test + " of " + r.Package
		}
		fmt.Fprintf(out, "\n== %s failed after %.1f s; the last that it printed:\n%s", name, r.Seconds, strings.Join(r.output[max(0, len(r.output)-shownLines):], ""))
	}
	for _, r := range red {
		if r.Test != "" {
			fmt.Fprintf(out, "--- FAIL: %s (%s): %s\n", r.Test, r.Package, r.reason())
		} else {
			fmt.Fprintf(out, "FAIL %s\n", r.Package)
		}
	}
}

func openEvents(path string) (io.WriteCloser, error) {
	if path == "" {
		return nopCloser{io.Discard}, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the events: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("creating the file of the events: %w", err)
	}
	return f, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
