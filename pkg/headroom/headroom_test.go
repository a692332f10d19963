// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

const mib = 1 << 20

func TestPercentage(t *testing.T) {
	for _, c := range []struct {
		name          string
		bytes, marked uint64
		least, most   int
	}{
		{"a small heap may grow by the headroom", 64 * mib, 8 * mib, 720, 800},
		{"a middling heap may grow by the headroom", 64 * mib, 40 * mib, 144, 160},
		{"a heap as large as the headroom doubles", 64 * mib, 64 * mib, 100, 100},
		{"a larger heap doubles", 64 * mib, 1000 * mib, 100, 100},
		{"before the first collection nothing is changed", 64 * mib, 0, 100, 100},
		{"a heap of next to nothing overflows nothing", 1 << 62, 1, 100, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := percentage(c.bytes, c.marked); got < c.least || got > c.most {
				t.Errorf("got %d, want %d to %d", got, c.least, c.most)
			}
		})
	}
}

// Each collection finds another heap; the percentage follows, up and down, and stops when told.
func TestThePercentageFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	before := percent()
	stop := Keep(256 * mib)
	t.Cleanup(stop)
	collectUntil(t, func(p int) bool { return p > 200 })
	func() {
		ballast := make([]byte, 300*mib)
		collectUntil(t, func(p int) bool { return p == usual })
		runtime.KeepAlive(ballast)
	}()
	collectUntil(t, func(p int) bool { return p > 200 })
	stop()
	for range 3 {
		runtime.GC()
	}
	if got := percent(); got != before {
		t.Errorf("after stop the percentage is %d, want %d", got, before)
	}
}

func TestAnOperatorsOwnPercentageStays(t *testing.T) {
	t.Setenv("GOGC", "70")
	before := debug.SetGCPercent(70)
	defer debug.SetGCPercent(before)
	defer Keep(1 << 40)()
	for range 3 {
		runtime.GC()
	}
	if got := percent(); got != 70 {
		t.Errorf("got %d, want 70", got)
	}
}

func percent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// collectUntil collects until the cleanup of a collection has set what is wanted.
func collectUntil(t *testing.T, ok func(percent int) bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		runtime.GC()
		runtime.Gosched()
		if ok(percent()) {
			return
		}
	}
	t.Fatalf("the percentage stays %d; GOGC is %q", percent(), os.Getenv("GOGC"))
}
