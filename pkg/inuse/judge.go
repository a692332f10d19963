// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Cause says what keeps unused instances from being taken. It is a metric's label and a condition's
// reason.
type Cause string

// Causes, in the order in which they are reported.
const (
	// ClocksDisagree: the controllers' clock and the runtime cluster's are too far apart.
	ClocksDisagree Cause = "ClocksDisagree"
	// FormerVersion: a replica serves that does not record use before it happens.
	FormerVersion Cause = "FormerVersion"
	// NoReplica: no replica serves, so nobody can use anything.
	NoReplica Cause = "NoReplica"
	// ReplicaClock: a replica's clock is too far ahead.
	ReplicaClock Cause = "ReplicaClock"
	// ReplicaLate: a replica does not renew its Lease and may still serve.
	ReplicaLate Cause = "ReplicaLate"
	// ReplicaSilent: a replica has not renewed its Lease for so long that it has stopped serving. It
	// may be cut off and refuse its callers, so that nothing is deleted.
	ReplicaSilent Cause = "ReplicaSilent"
)

// Causes are all of them.
var Causes = []Cause{ClocksDisagree, FormerVersion, NoReplica, ReplicaClock, ReplicaLate, ReplicaSilent}

// Verdict is what the replicas and the clocks allow at one moment.
type Verdict struct {
	// Since is since when time counts as unused; zero while it does not count at all.
	Since time.Time
	// Sleep and Delete report whether an instance may be put to sleep, and deleted, for being unused.
	Sleep, Delete bool
	// Cause is why not; empty if both may be. Replica is the holder of the Lease that it is about.
	Cause   Cause
	Replica string
	// Anew reports whether unused time has to start anew: what happens now is not known to the
	// records. Since is to be moved to this moment.
	Anew bool
	// Forget names the Leases of the replicas that have been silent for so long that they are gone.
	Forget []*coordinationv1.Lease
	// Replicas counts the replicas' Leases by what they are: "" for one that renews its Lease in time.
	Replicas map[Cause]int
}

// Judge watches the Leases of the data plane's replicas. Safe for concurrent use.
type Judge struct {
	mu   sync.Mutex
	seen Sightings
}

// Sightings are the renewals of Leases that were seen, by the Leases' names. Who sees a renewal goes by
// the own clock from then on; two machines' clocks are compared only for a Lease that is seen for the
// first time. They can be lost: no instance's record depends on them.
type Sightings map[string]Sighting

// Sighting is the last renewal of a Lease that was seen.
type Sighting struct {
	Holder  string
	Renewed time.Time
	// At is when the renewal was seen. The monotonic clock alone measures ages from here: a wall
	// clock that jumps would make all replicas look silent.
	At time.Time
	// Ahead is by how much the renewal lay in the future then.
	Ahead time.Duration
}

// Look judges by all Leases in the provider's namespace.
func (j *Judge) Look(leases []coordinationv1.Lease, clock *Clock) Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	var v Verdict
	v, j.seen = Look(leases, j.seen, clock)
	return v
}

// Look judges by all Leases in the provider's namespace and what was seen of them before. It returns
// what is seen now.
func Look(leases []coordinationv1.Lease, before Sightings, clock *Clock) (Verdict, Sightings) {
	now := clock.Now()
	v := Verdict{Sleep: true, Delete: true, Replicas: map[Cause]int{}}
	if ahead, ok := clock.Ahead(Runtime); ok && ahead.Abs() > ClockTolerance {
		v.hold(ClocksDisagree, "")
		v.Anew = true
	}
	shared, former, replicas := sorted(leases)
	seen := make(Sightings, len(leases))
	v.former(former, seen.see(former, before, now), now)
	v.serving(shared, seen.see(shared, before, now), clock, now)
	for _, lease := range replicas {
		v.replica(lease, seen.see(lease, before, now), now)
	}
	return v, seen
}

// sorted tells the Leases apart.
func sorted(leases []coordinationv1.Lease) (shared, former *coordinationv1.Lease, replicas []*coordinationv1.Lease) {
	for i := range leases {
		lease := &leases[i]
		switch {
		case lease.Name == placement.DataPlaneLease:
			shared = lease
		case lease.Name == placement.FormerDataPlaneLease:
			former = lease
		case lease.Labels[placement.LabelReplica] != "":
			replicas = append(replicas, lease)
		}
	}
	return shared, former, replicas
}

// former judges by the Lease of replicas that do not record use before it happens. They do not stop
// serving when they are cut off either, so that their silence counts only when they are given up.
func (v *Verdict) former(lease *coordinationv1.Lease, last Sighting, now time.Time) {
	switch {
	case lease == nil:
	case now.Sub(last.At) > GivenUpAfter:
		v.Forget = append(v.Forget, lease)
	default:
		v.hold(FormerVersion, "")
		v.Anew = true
	}
}

// serving judges by the Lease that all replicas share.
func (v *Verdict) serving(shared *coordinationv1.Lease, last Sighting, clock *Clock, now time.Time) {
	switch {
	case shared == nil || shared.Spec.AcquireTime == nil || now.Sub(last.At) > SilentAfter:
		v.hold(NoReplica, "")
	case last.Ahead.Abs() > ClockTolerance:
		v.hold(ReplicaClock, holder(shared))
	case shared.Spec.AcquireTime.Sub(clock.Later()) > Ahead:
		v.Anew = true // written by a clock that was wrong; it would keep everything until then
	case !v.Anew:
		v.Since = shared.Spec.AcquireTime.Time
	}
}

// replica judges by one replica's Lease.
func (v *Verdict) replica(lease *coordinationv1.Lease, last Sighting, now time.Time) {
	age, cause := now.Sub(last.At), Cause("")
	switch {
	case age > SilentAfter:
		cause = ReplicaSilent
		if age > GivenUpAfter {
			v.Forget = append(v.Forget, lease)
		}
	case last.Ahead.Abs() > ClockTolerance:
		cause = ReplicaClock
	case age > LateAfter:
		cause = ReplicaLate
	}
	v.Replicas[cause]++
	if cause != "" {
		v.hold(cause, holder(lease))
	}
}

// hold notes why nothing is taken. The cause that comes first in Causes is reported.
func (v *Verdict) hold(cause Cause, replica string) {
	v.Sleep = v.Sleep && cause == ReplicaSilent
	v.Delete = false
	if v.Cause == "" || slices.Index(Causes, cause) < slices.Index(Causes, v.Cause) {
		v.Cause, v.Replica = cause, replica
	}
}

// see notes the renewal that a Lease holds.
func (s Sightings) see(lease *coordinationv1.Lease, before Sightings, now time.Time) Sighting {
	if lease == nil || lease.Spec.RenewTime == nil {
		return Sighting{}
	}
	renewed := lease.Spec.RenewTime.Time
	last, known := before[lease.Name]
	if !known || last.Holder != holder(lease) || !last.Renewed.Equal(renewed) {
		last = Sighting{Holder: holder(lease), Renewed: renewed, At: now, Ahead: renewed.Sub(now.Round(0))}
		if !known && last.Ahead < 0 {
			// Nobody has watched it until now: it may be old, or its clock behind.
			last.At, last.Ahead = now.Add(last.Ahead), 0
		}
	}
	s[lease.Name] = last
	return last
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
