// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package headroom spares a process with a small heap most of its garbage collections. Go collects
// when a heap has doubled. A proxy holds little and makes much garbage, so it would collect ten
// times a second and spend a third of its processor time on it. With headroom it collects when the
// heap has doubled or has grown by a number of bytes, whichever is later: memory grows by at most
// that number, and a process whose heap is larger than that behaves as if this package did not
// exist.
package headroom

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// usual is Go's own percentage, and the least that is ever set.
const usual = 100

// Keep lets the heap of this process grow by at least so many bytes between two collections,
// until stop is called. An operator who has set GOGC knows better: then it does nothing. The
// limit of GOMEMLIMIT holds in any case. One at a time.
func Keep(bytes uint64) (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	k := &keeper{bytes: bytes, percent: usual}
	k.watch()
	return k.stop
}

type keeper struct {
	bytes uint64

	mu      sync.Mutex
	percent int
	stopped bool
}

func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	debug.SetGCPercent(usual)
}

// sentinel becomes garbage as soon as it is made, and so is noticed with each collection. It has a
// pointer because the runtime packs small objects without one together, and keeps them together.
type sentinel struct{ _ *keeper }

// watch has the percentage adjusted after each collection: what it refers to has just changed.
func (k *keeper) watch() {
	if k.adjust() {
		runtime.AddCleanup(&sentinel{}, (*keeper).watch, k)
	}
}

// adjust sets the percentage; false when it is no longer wanted.
func (k *keeper) adjust() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if wanted := percentage(k.bytes, marked()); !k.stopped && wanted != k.percent {
		k.percent = wanted
		debug.SetGCPercent(wanted)
	}
	return !k.stopped
}

// marked is what the percentage refers to: what the last collection found alive, and the roots.
func marked() uint64 {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/scan/stack:bytes"},
	}
	metrics.Read(samples)
	var sum uint64
	for _, s := range samples {
		sum += s.Value.Uint64()
	}
	return sum
}

// percentage is how much of marked is the headroom, in steps of a tenth of it: to set another one
// stops the process for a moment, which small changes are not worth.
func percentage(bytes, marked uint64) int {
	if marked == 0 || bytes/marked > math.MaxInt32/usual {
		return usual // before the first collection nothing is known
	}
	percent := int(100 * bytes / marked)
	if percent <= usual {
		return usual
	}
	step := 1
	for step*20 < percent {
		step *= 2
	}
	return percent - percent%step
}
