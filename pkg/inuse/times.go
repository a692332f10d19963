// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import "time"

const (
	// BeatInterval is how often each replica renews its Lease.
	BeatInterval = 10 * time.Second
	// FenceAfter is how long a replica serves after the last renewal that has come back to it.
	FenceAfter = 30 * time.Second
	// LateAfter is how long after the last renewal that they saw the controllers call a replica
	// late: two renewals are missing, and it may serve for some time yet.
	LateAfter = 20 * time.Second
	// SilentAfter is how long after that renewal the replica has stopped serving for certain:
	// FenceAfter, and half of it for two machines whose clocks do not run alike.
	SilentAfter = FenceAfter + FenceAfter/2
	// GivenUpAfter is how long after that renewal the controllers forget the replica. Until then it
	// may be one that is cut off and refuses its callers, and nothing is deleted for being unused.
	GivenUpAfter = 10 * time.Minute

	// Grace is how long an instance may be used after the moment at which its next record was due:
	// so long the runtime cluster's API may be away.
	Grace = 30 * time.Second
	// Margin is how much later than a record covers the controllers take the use to have ended:
	// for clocks that differ by seconds, and for a replica that ends a stream late.
	Margin = 15 * time.Second
	// Ahead is how far in the future the time of a record may lie. Beyond it a clock is wrong, or
	// was, and the record is set back.
	Ahead = time.Minute
	// ClockTolerance is how far two clocks may be apart before the controllers take neither's word.
	ClockTolerance = 30 * time.Second
)

// Elapsed returns how much time has passed between two readings of this process's clock: by the
// monotonic clock, which no operator sets, or by the wall clock if that says more. The monotonic
// clock stands still while a machine is suspended; a limit that it alone measured would not notice.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
