// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestPass has the output of two tests that run side by side, as go test prints it.
func TestPass(t *testing.T) {
	const printed = `=== RUN   TestGood
=== PAUSE TestGood
=== RUN   TestBad
=== PAUSE TestBad
=== CONT  TestGood
    good_test.go:1: good begins
=== CONT  TestBad
    bad_test.go:1: bad begins
=== RUN   TestBad/part
    bad_test.go:2: it is broken
=== NAME  TestGood
    good_test.go:2: good ends
--- PASS: TestGood (0.01s)
=== NAME  TestBad
    bad_test.go:3: bad ends
--- FAIL: TestBad (0.02s)
    --- FAIL: TestBad/part (0.00s)
FAIL
FAIL	example	0.105s
`
	var out strings.Builder
	failed, err := pass(strings.NewReader(printed), &out)
	if err != nil || !failed {
		t.Fatalf("failed %v, %v", failed, err)
	}
	whole, repeated, _ := strings.Cut(out.String(), "\n== TestBad failed; the last lines that it printed:\n")
	if !strings.HasSuffix(whole, "FAIL\texample\t0.105s\n") || strings.Contains(whole, "=== RUN") || strings.Contains(whole, "=== CONT") {
		t.Errorf("passed on:\n%s", whole)
	}
	for _, line := range []string{"bad begins", "it is broken", "bad ends", "--- FAIL: TestBad/part"} {
		if !strings.Contains(repeated, line) {
			t.Errorf("%q is not repeated in:\n%s", line, repeated)
		}
	}
	if strings.Contains(repeated, "good") {
		t.Errorf("another test's lines are repeated:\n%s", repeated)
	}
}

func TestPassKeepsTheLastLinesAlone(t *testing.T) {
	var printed strings.Builder
	for n := range 10 * kept {
		fmt.Fprintf(&printed, "=== NAME  TestLong\n    long_test.go:1: line %d.\n", n)
	}
	printed.WriteString("--- FAIL: TestLong (1.00s)\n")
	var out strings.Builder
	if failed, err := pass(strings.NewReader(printed.String()), &out); err != nil || !failed {
		t.Fatalf("failed %v, %v", failed, err)
	}
	_, repeated, _ := strings.Cut(out.String(), "\n== ")
	if n := strings.Count(repeated, "\n"); n != kept+1 || !strings.Contains(repeated, "line 541.") || !strings.Contains(repeated, "line 599.") {
		t.Errorf("%d lines are repeated:\n%s", n, repeated)
	}
}

func TestPassOfAllGood(t *testing.T) {
	const printed = "=== RUN   TestGood\n--- PASS: TestGood (0.01s)\nPASS\nok  \texample\t0.105s\n"
	var out strings.Builder
	failed, err := pass(strings.NewReader(printed), &out)
	if err != nil || failed {
		t.Errorf("failed %v, %v", failed, err)
	}
	if want := strings.SplitAfterN(printed, "\n", 2)[1]; out.String() != want {
		t.Errorf("passed on:\n%s", out.String())
	}
}
