// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"sync/atomic"
	"time"
)

// Fence keeps a replica from serving that does not renew its Lease, or does not see that it has: it
// could neither record use nor learn what happens on the runtime cluster. It opens with the first
// renewal that comes back. The zero value is closed; a nil Fence keeps nobody from serving.
type Fence struct {
	renewed atomic.Pointer[time.Time]
}

// Renew notes that a renewal has come back; began is when it was sent.
func (f *Fence) Renew(began time.Time) { f.renewed.Store(&began) }

// Age returns how long ago the renewal was sent that came back last; false if none has.
func (f *Fence) Age(now time.Time) (time.Duration, bool) {
	renewed := f.renewed.Load()
	if renewed == nil {
		return 0, false
	}
	return Elapsed(*renewed, now), true
}

// Left returns for how much longer the replica may serve; zero or less means not any more. It is
// computed at each question, so that a process that was stopped finds out by itself.
func (f *Fence) Left(now time.Time) time.Duration {
	if f == nil {
		return FenceAfter
	}
	age, ok := f.Age(now)
	if !ok {
		return 0
	}
	return FenceAfter - age
}

// Open reports whether the replica may serve.
func (f *Fence) Open(now time.Time) bool { return f.Left(now) > 0 }
