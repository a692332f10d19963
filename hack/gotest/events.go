// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is a line of what go test -json prints (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64 // seconds
	Time                                      time.Time
}

// outcome is how a test or a package ended, by its name in test2json.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
	// flaky: it failed, and passed when it was run once more.
	flaky outcome = "flaky"
	// quarantined: it failed, and is in the quarantine.
	quarantined outcome = "quarantined"
)

// marks begin the lines about tests that failed and do not make a run red: defects to mend.
var marks = map[outcome]string{flaky: "FLAKY", quarantined: "QUARANTINED"}

// result is a test or, without a name, a package. Subtests that were skipped have results of their own;
// the output of all others is part of their top-level test's.
type result struct {
	Stage   string  `json:"stage"`
	Package string  `json:"package"`
	Test    string  `json:"test,omitempty"`
	Outcome outcome `json:"outcome"`
	Seconds float64 `json:"seconds"`
	// Why is a reason to be skipped, or what a flaky test said first and last.
	Why string `json:"why,omitempty"`

	began  time.Time
	waits  bool // for its turn among parallel tests
	output []string
	subs   parallelSubtests
}

// parallelSubtests is for how long parallel subtests of a test run. Package testing begins them when the test's own
// function has returned, and leaves them out of the test's Elapsed.
type parallelSubtests struct {
	running map[string]bool // by their names below the test
	since   time.Time       // the first of those that run began
	total   time.Duration
}

// goesOn takes the begin of what a parallel subtest does after it has waited for its turn.
func (p *parallelSubtests) goesOn(sub string, at time.Time) {
	if strings.Contains(sub, "/") {
		return // a part of the one above it, which has not ended
	}
	if len(p.running) == 0 {
		p.running, p.since = map[string]bool{}, at
	}
	p.running[sub] = true
}

// ends takes the end of a subtest, which need not be a parallel one.
func (p *parallelSubtests) ends(sub string, at time.Time) {
	if !p.running[sub] {
		return
	}
	delete(p.running, sub)
	if len(p.running) == 0 {
		p.total += at.Sub(p.since)
	}
}

// keptLines is how many of the last lines of a test are kept, to be shown if it fails.
const keptLines = 400

func (r *result) print(line string) {
	r.output = append(r.output, line)
	if len(r.output) > 2*keptLines {
		r.output = append(r.output[:0:0], r.output[len(r.output)-keptLines:]...)
	}
}

// final are the marks of failures that a second run cannot disprove.
var final = regexp.MustCompile(`WARNING: DATA RACE|^panic: |^fatal error: |impossible: |left running|found unexpected goroutines`)

func (r *result) isFinal() bool {
	return slices.ContainsFunc(r.output, final.MatchString)
}

// source is how package testing begins the lines of t.Error, t.Fatal and t.Skip.
var source = regexp.MustCompile(`^\s+\w+\.go:\d+: (.*)`)

// reason is the last of a test's own words if it was skipped, and the first and the last if it failed: go test does not tell what a test
// logs from its errors.
func (r *result) reason() string {
	var first, last string
	for _, line := range r.output {
		if m := source.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			last = m[1]
			if first == "" {
				first = last
			}
		}
	}
	if r.Outcome == skipped || first == last {
		return last
	}
	return first + " … " + last
}

// listener is told of results as they come.
type listener interface {
	ended(r *result)
	// said is told lines that belong to no test, for example what the compiler prints.
	said(line string)
}

// collector makes results of events.
type collector struct {
	stage string
	to    listener

	mu      sync.Mutex // of running, which is read from outside while collect runs
	running map[string]*result
	results []*result
}

// collect reads events until their end, copying them to a file.
func (c *collector) collect(from io.Reader, copyTo io.Writer) error {
	reader := bufio.NewReader(from)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			if _, err := copyTo.Write(line); err != nil {
				return fmt.Errorf("writing the events: %w", err)
			}
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				c.to.said(string(line)) // go test prints some errors of its own as text
				continue
			}
			c.take(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading what go test prints: %w", err)
		}
	}
}

func (c *collector) take(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	top, sub, isSub := strings.Cut(e.Test, "/")
	r := c.known(e.Package, top)
	ends := outcome(e.Action) == passed || outcome(e.Action) == failed || outcome(e.Action) == skipped
	if isSub && ends {
		r.subs.ends(sub, e.Time)
	}
	switch {
	case e.Action == "build-output":
		c.to.said(e.Output)
	case e.Action == "pause" && !isSub:
		r.waits = true
	case e.Action == "cont" && !isSub:
		r.waits, r.began = false, time.Now()
	case e.Action == "cont":
		r.subs.goesOn(sub, e.Time)
	case e.Action == "output":
		r.print(e.Output)
	case isSub && outcome(e.Action) == skipped:
		reason := (&result{Outcome: skipped, output: r.output}).reason()
		c.results = append(c.results, &result{Stage: c.stage, Package: e.Package, Test: top + "/" + sub, Outcome: skipped, Why: reason})
	case isSub, e.Package == "":
	case ends:
		r.Outcome, r.Seconds = outcome(e.Action), e.Elapsed+r.subs.total.Seconds()
		if r.Outcome == skipped {
			r.Why = r.reason()
		}
		delete(c.running, e.Package+" "+top)
		c.results = append(c.results, r)
		c.to.ended(r)
	}
}

// known returns what runs by that name, which may begin now. A package runs as long as one of its tests does.
func (c *collector) known(pkg, test string) *result {
	r, ok := c.running[pkg+" "+test]
	if !ok {
		r = &result{Stage: c.stage, Package: pkg, Test: test, began: time.Now()}
		if pkg != "" {
			c.running[pkg+" "+test] = r
		}
	}
	return r
}

// failures are the tests that failed, the packages that did, and whether a failure is final. A package fails
// with its tests; one that fails by itself, for example since it does not compile, is final.
func (c *collector) failures() (tests, packages []*result, isFinal bool) {
	with := map[string]bool{}
	for _, r := range c.results {
		if r.Outcome == failed && r.Test != "" {
			tests, with[r.Package] = append(tests, r), true
			isFinal = isFinal || r.isFinal()
		}
	}
	for _, r := range c.results {
		if r.Outcome == failed && r.Test == "" {
			packages = append(packages, r)
			isFinal = isFinal || !with[r.Package] || r.isFinal()
		}
	}
	return tests, packages, isFinal
}
