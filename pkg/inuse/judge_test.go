// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"maps"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/inuse/clocktest"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// court is a judge with the Leases that it sees, at noon in the beginning.
type court struct {
	Judge

	now    time.Time
	leases map[string]*coordinationv1.Lease
	clock  *Clock
}

func newCourt(replicas ...string) *court {
	c := &court{now: noon, leases: map[string]*coordinationv1.Lease{}}
	c.clock = clockAt(&c.now)
	c.renew(placement.DataPlaneLease, 0)
	c.leases[placement.DataPlaneLease].Spec.AcquireTime = &metav1.MicroTime{Time: noon.Add(-time.Hour)}
	for _, replica := range replicas {
		c.renew(replica, 0)
	}
	return c
}

// renew has a Lease say that it was renewed now, by a clock that is ahead.
func (c *court) renew(name string, ahead time.Duration) {
	lease := c.leases[name]
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name != placement.DataPlaneLease && name != placement.FormerDataPlaneLease {
			lease.Labels = map[string]string{placement.LabelReplica: name}
			lease.Spec.HolderIdentity = &name
		}
		c.leases[name] = lease
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: c.now.Add(ahead)}
}

// pass lets time pass in which the named replicas renew their Leases, and the shared one.
func (c *court) pass(d time.Duration, renewing ...string) Verdict {
	var v Verdict
	for end := c.now.Add(d); c.now.Before(end); {
		c.now = c.now.Add(min(BeatInterval, end.Sub(c.now)))
		for _, name := range renewing {
			c.renew(name, 0)
			c.renew(placement.DataPlaneLease, 0)
		}
		v = c.look()
	}
	return v
}

func (c *court) look() Verdict {
	var leases []coordinationv1.Lease
	for _, name := range slices.Sorted(maps.Keys(c.leases)) {
		leases = append(leases, *c.leases[name])
	}
	return c.Look(leases, c.clock)
}

func (v Verdict) is(t *testing.T, what string, cause Cause, sleep, deletes bool) {
	t.Helper()
	if v.Cause != cause || v.Sleep != sleep || v.Delete != deletes {
		t.Errorf("%s: cause %q, sleep %v, delete %v; want %q, %v, %v", what, v.Cause, v.Sleep, v.Delete, cause, sleep, deletes)
	}
	if sleep && v.Since.IsZero() {
		t.Errorf("%s: no time counts as unused", what)
	}
}

func TestWhatEveryReplicaAllows(t *testing.T) {
	c := newCourt("a", "b")
	c.look().is(t, "at the first look", "", true, true)
	v := c.pass(time.Hour, "a", "b")
	v.is(t, "while both renew", "", true, true)
	if !v.Since.Equal(noon.Add(-time.Hour)) || v.Anew || v.Replicas[""] != 2 {
		t.Errorf("%+v", v)
	}
}

func TestAReplicaThatDoesNotRenewHoldsUpSleepUntilItHasStoppedAndDeletionUntilItIsGivenUp(t *testing.T) {
	c := newCourt("a", "b")
	c.look()
	c.pass(LateAfter, "a").is(t, "two renewals are missing", "", true, true)
	v := c.pass(time.Second, "a")
	v.is(t, "late", ReplicaLate, false, false)
	if v.Replica != "b" || v.Replicas[ReplicaLate] != 1 {
		t.Errorf("it is %q: %v", v.Replica, v.Replicas)
	}
	c.pass(SilentAfter-LateAfter-time.Second, "a").is(t, "it may still serve", ReplicaLate, false, false)
	v = c.pass(time.Second, "a")
	v.is(t, "it has stopped serving", ReplicaSilent, true, false)
	if v.Anew || len(v.Forget) > 0 {
		t.Errorf("%+v", v)
	}
	v = c.pass(GivenUpAfter-SilentAfter, "a")
	v.is(t, "silent for long", ReplicaSilent, true, false)
	if len(v.Forget) != 1 || v.Forget[0].Name != "b" {
		t.Errorf("to be forgotten: %v", v.Forget)
	}
	delete(c.leases, "b")
	c.look().is(t, "given up", "", true, true)
}

func TestAReplicaThatComesBackHoldsUpNothing(t *testing.T) {
	c := newCourt("a", "b")
	c.look()
	c.pass(time.Minute, "a").is(t, "silent", ReplicaSilent, true, false)
	c.pass(BeatInterval, "a", "b").is(t, "back", "", true, true)
}

func TestAReplicaThatEndsInOrderOrIsReplacedHoldsUpNothing(t *testing.T) {
	c := newCourt("a", "b")
	c.look()
	delete(c.leases, "b")
	c.pass(time.Minute, "a").is(t, "it has ended", "", true, true)
	// A process that is started in the place of one that was killed takes its Lease over.
	c.leases["a"].Spec.HolderIdentity = new(string)
	c.pass(time.Minute, "a").is(t, "replaced", "", true, true)
}

func TestNothingIsTakenWhileNoReplicaServes(t *testing.T) {
	c := newCourt("a")
	c.look()
	delete(c.leases, "a")
	c.pass(SilentAfter).is(t, "a gap of a moment", "", true, true)
	v := c.pass(time.Second)
	v.is(t, "no replica", NoReplica, false, false)
	if !v.Since.IsZero() || v.Anew {
		t.Errorf("%+v", v)
	}
	delete(c.leases, placement.DataPlaneLease)
	c.look().is(t, "no Lease at all", NoReplica, false, false)
}

func TestAReplicaOfAnEarlierVersionHasTimeStartAnewUntilItIsGone(t *testing.T) {
	c := newCourt("a")
	c.renew(placement.FormerDataPlaneLease, 0)
	for range 3 {
		c.renew(placement.FormerDataPlaneLease, 0)
		v := c.pass(BeatInterval, "a")
		v.is(t, "it serves", FormerVersion, false, false)
		if !v.Anew || !v.Since.IsZero() {
			t.Errorf("%+v", v)
		}
	}
	c.pass(GivenUpAfter, "a").is(t, "it may be cut off and serve", FormerVersion, false, false)
	v := c.pass(time.Second, "a")
	v.is(t, "it is gone", "", true, true)
	if len(v.Forget) != 1 || v.Forget[0].Name != placement.FormerDataPlaneLease {
		t.Errorf("to be forgotten: %v", v.Forget)
	}
}

func TestClocksThatDisagreeHaveTimeStartAnew(t *testing.T) {
	for _, ahead := range []time.Duration{-24 * time.Hour, -ClockTolerance - time.Second, ClockTolerance + time.Second, 24 * time.Hour} {
		c := newCourt("a")
		c.clock.Heard(Runtime, c.now)
		c.look().is(t, "in the beginning", "", true, true)
		c.clock.Heard(Runtime, c.now.Add(ahead))
		v := c.look()
		v.is(t, ahead.String(), ClocksDisagree, false, false)
		if !v.Anew || !v.Since.IsZero() {
			t.Errorf("%v: %+v", ahead, v)
		}
		c.clock.Heard(Runtime, c.now)
		c.look().is(t, "when they agree again", "", true, true)
	}
}

func TestAReplicaWhoseClockIsWrongHoldsUpEverything(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		c := newCourt("a", "b")
		c.look()
		c.pass(BeatInterval, "a", "b")
		c.now = c.now.Add(BeatInterval)
		c.renew("a", 0)
		c.renew("b", ahead)
		v := c.look()
		v.is(t, ahead.String(), ReplicaClock, false, false)
		if v.Replica != "b" {
			t.Errorf("it is %q", v.Replica)
		}
	}
}

// A wall clock that jumps while the monotonic one goes on makes no replica look silent, let alone
// forgotten.
func TestAJumpOfTheControllersClockForgetsNoReplica(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, time.Hour} {
		c := newCourt()
		c.now = time.Now()
		c.renew("a", 0)
		c.renew(placement.DataPlaneLease, 0)
		c.look()
		c.now = clocktest.SetWall(c.now.Add(BeatInterval), jump)
		if v := c.look(); v.Replicas[""] != 1 || len(v.Forget) > 0 {
			t.Errorf("a jump by %v: %+v", jump, v)
		}
	}
}

func TestAStartOfTheControllersGoesByTheClocksOnce(t *testing.T) {
	for age, want := range map[time.Duration]Cause{
		0: "", LateAfter: "", LateAfter + time.Second: ReplicaLate, SilentAfter + time.Second: ReplicaSilent,
	} {
		c := newCourt("a", "b")
		c.renew("b", -age)
		if got := c.look(); got.Cause != want {
			t.Errorf("a renewal that is %v old at the first look: %q, want %q", age, got.Cause, want)
		}
	}
}

// A clock that was far ahead has written when time began to count.
func TestAStartThatLiesAheadIsMovedToNow(t *testing.T) {
	c := newCourt("a")
	c.leases[placement.DataPlaneLease].Spec.AcquireTime = &metav1.MicroTime{Time: noon.Add(24 * time.Hour)}
	if v := c.look(); !v.Anew || !v.Since.IsZero() {
		t.Errorf("%+v", v)
	}
}

func TestOfSeveralCausesTheFirstIsReported(t *testing.T) {
	c := newCourt("a", "b", "c")
	c.look()
	c.pass(SilentAfter-LateAfter, "a", "b")
	v := c.pass(LateAfter+time.Second, "a") // b is late then, and c silent
	v.is(t, "late and silent", ReplicaLate, false, false)
	if v.Replica != "b" || v.Replicas[ReplicaSilent] != 1 {
		t.Errorf("%+v", v)
	}
	c.clock.Heard(Runtime, c.now.Add(time.Hour))
	c.look().is(t, "and the clocks disagree", ClocksDisagree, false, false)
}
