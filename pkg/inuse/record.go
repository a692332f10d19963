// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Record is what the Lease of an instance (placement.ActivityLease) says of its use.
type Record struct {
	// Used is when the instance was used: the Lease's renewTime. Zero means that it does not say.
	Used time.Time
	// Covers is for how long after Used the replica that wrote the record may let the instance be
	// used: the Lease's leaseDurationSeconds. Zero means that no replica has written it.
	Covers time.Duration
	// Ending is set while the controllers are about to delete the instance for being unused. The
	// mark and a record exclude each other: both are written under the Lease's version.
	Ending bool
}

// RecordOf reads a Lease; nil holds nothing.
func RecordOf(lease *coordinationv1.Lease) Record {
	if lease == nil {
		return Record{}
	}
	var r Record
	if lease.Spec.RenewTime != nil {
		r.Used = lease.Spec.RenewTime.Time
	}
	if lease.Spec.LeaseDurationSeconds != nil {
		r.Covers = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	_, r.Ending = lease.Annotations[placement.AnnotationEnding]
	return r
}

// Since counts a moment as a use, if the record knows of no later one: at its adoption a placement gets an
// owner, who uses it, and its Lease is not written.
func (r Record) Since(at time.Time) Record {
	if r.Used.Before(at) {
		r.Used, r.Covers = at, 0
	}
	return r
}

// CoverFor is how long a record covers that is written anew after each interval of use.
func CoverFor(interval time.Duration) time.Duration { return interval + Grace }

// covers is for how long the record covers. One that no replica has written, because it tells of
// the instance's making or of a change of its spec, covers what the interval leaves without Margin.
func (r Record) covers(interval time.Duration) time.Duration {
	if r.Covers > 0 {
		return r.Covers
	}
	return max(interval-Margin, 0)
}

// Lag is how much later than Used the instance may have been used in fact. The controllers count
// unused time from Used plus Lag.
func (r Record) Lag(interval time.Duration) time.Duration { return r.covers(interval) + Margin }

// Believable reports whether Used is a time that can be. now must be the later clock's.
func (r Record) Believable(now time.Time) bool { return !r.Used.IsZero() && r.Used.Sub(now) <= Ahead }

// Current reports whether the record says all that one of now would say, to within the interval:
// another replica has written it a moment ago. now must be the later clock's.
func (r Record) Current(now time.Time, interval time.Duration) bool {
	return !r.Ending && r.Believable(now) && now.Sub(r.Used) < interval
}

// Covering returns what a current record allows the replica that reads it, at the moment local by
// its own clock and now by the later clock.
func (r Record) Covering(local, now time.Time, interval time.Duration) *Coverage {
	return &Coverage{From: local, For: r.covers(interval) - max(now.Sub(r.Used), 0)}
}

// Covered returns what a record allows the replica that wrote it, at the moment local by its own clock
// and now by the later clock. It counts from the use that was written, as the controllers do: a use
// that ended a while ago covers that much less.
func Covered(local, now, used time.Time, interval time.Duration) *Coverage {
	return Record{Used: used, Covers: CoverFor(interval)}.Covering(local, now, interval)
}

// Extend says how a use is recorded that lasted until some time ago: by writing used, which then
// covers what Covered says, or not at all, because what is known covers the replica already. now must
// be the later clock's, and local this process's at the same moment.
func (r Record) Extend(local, now time.Time, ago, interval time.Duration) (used time.Time, covered *Coverage) {
	used = now.Add(-ago)
	if r.Used.Before(used) {
		return used, nil
	}
	// Another replica was first. Its time is never taken back: it may have used it for longer.
	if covered = r.Covering(local, now, interval); !r.Ending && covered.For > 0 {
		return r.Used, covered
	}
	return r.Used, nil
}

// Coverage is how long a replica may let an instance be used because of a record.
type Coverage struct {
	// From is a moment before the record was written, by this process's clock.
	From time.Time
	// For is how long the record covers from then on.
	For time.Duration
}

// Renewal returns when to write the next record, so that an instance in use stays covered: after the
// interval, or with Grace left if the coverage ends before.
func (c *Coverage) Renewal(interval time.Duration) time.Duration {
	return max(min(interval, c.For-Grace), 0)
}

// Left returns for how much longer the instance may be used; zero or less means not any more. A nil
// Coverage covers nothing.
func (c *Coverage) Left(now time.Time) time.Duration {
	if c == nil {
		return 0
	}
	return c.For - Elapsed(c.From, now)
}
