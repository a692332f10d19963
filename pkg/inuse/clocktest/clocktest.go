// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package clocktest makes readings of a clock that tests cannot wait for.
package clocktest

import (
	"time"
	"unsafe"
)

// SetWall moves the wall clock of a reading and leaves its monotonic one, as no function of package
// time does: what a process reads whose machine's clock was set, or that was suspended. It panics for
// a reading without a monotonic clock.
func SetWall(reading time.Time, by time.Duration) time.Time {
	const hasMonotonic = 1 << 63 // the layout of time.Time: one bit, 33 of seconds, 30 of nanoseconds
	moved := reading
	wall := (*uint64)(unsafe.Pointer(&moved)) // #nosec G103 -- the only way to such a reading
	if *wall&hasMonotonic == 0 {
		panic("the reading has no monotonic clock")
	}
	*wall += uint64(by/time.Second) << 30
	if moved.Round(0).Sub(reading.Round(0)) != by.Truncate(time.Second) || moved.Sub(reading) != 0 {
		panic("time.Time has another layout by now")
	}
	return moved
}
