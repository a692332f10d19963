// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTheLinesCompareWithWhatWasMeasuredInTheSameGroup(t *testing.T) {
	d := &durations{}
	for range 10 {
		d.add("sequence", warm, 20*time.Millisecond)
		d.add("sequence", agentSandbox, 80*time.Millisecond)
		d.add("sequence", cold, time.Second)
		d.add("burst", warm, 50*time.Millisecond)
		d.add("alone", warm, 10*time.Millisecond)
		d.add("beside", warm, 11*time.Millisecond)
	}
	var got []string
	for _, line := range d.lines() {
		got = append(got, line.String())
	}
	for i, want := range []string{
		"BENCH claim group=sequence lane=Warm p50_ms=20.00 p95_ms=20.00 p99_ms=20.00 vs_agent_sandbox=0.25 vs_cold=0.02 n=10",
		"BENCH claim group=sequence lane=agent-sandbox p50_ms=80.00 p95_ms=80.00 p99_ms=80.00 vs_agent_sandbox=1.00 vs_cold=0.08 n=10",
		"BENCH claim group=sequence lane=Cold p50_ms=1000 p95_ms=1000 p99_ms=1000 vs_agent_sandbox=12.50 vs_cold=1.00 n=10",
		"BENCH claim group=burst lane=Warm p50_ms=50.00 p95_ms=50.00 p99_ms=50.00 n=10",
		"BENCH claim group=alone lane=Warm p50_ms=10.00 p95_ms=10.00 p99_ms=10.00 n=10",
		"BENCH claim group=beside lane=Warm p50_ms=11.00 p95_ms=11.00 p99_ms=11.00 p99_vs_alone=1.10 n=10",
	} {
		if i >= len(got) || got[i] != want {
			t.Errorf("line %d of %d:\n%s\nwant\n%s", i, len(got), strings.Join(got, "\n"), want)
		}
	}
	if len(d.samples()["agent-sandbox-sequence/ms"]) != 10 {
		t.Errorf("the samples are %v", d.samples())
	}
}

func TestTogetherReturnsWhatFailedOnceAllHaveEnded(t *testing.T) {
	broken := errors.New("broken")
	ended := make(chan int, 5)
	err := together(5, nil, func(i int) error {
		ended <- i
		if i == 3 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) || len(ended) != 5 {
		t.Errorf("got %v after %d", err, len(ended))
	}
}
