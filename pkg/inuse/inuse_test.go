// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/inuse/clocktest"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// What the controllers allow for must never be less than what a replica takes for itself.
func TestTheControllersAllowForMoreThanAReplicaTakes(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 14 * time.Second, 15 * time.Second, time.Minute, time.Hour} {
		for name, r := range map[string]Record{
			"written by a replica":         {Used: noon, Covers: CoverFor(interval)},
			"written under another number": {Used: noon, Covers: CoverFor(time.Hour)},
			"written by the controllers":   {Used: noon},
		} {
			for _, age := range []time.Duration{-time.Minute, 0, time.Second, interval} {
				taken := r.Covering(noon, noon.Add(age), interval).For
				if allowed := r.Lag(interval) - Margin - max(age, 0); taken > allowed {
					t.Errorf("a record %s, %v old: a replica takes %v, the controllers allow for %v", name, age, taken, allowed)
				}
			}
			if r.Lag(interval) < Margin {
				t.Errorf("a record %s has the lag %v", name, r.Lag(interval))
			}
		}
		if CoverFor(interval) < interval+FenceAfter {
			t.Errorf("after an interval of %v nothing is left for an API that is away", interval)
		}
	}
	if SilentAfter <= FenceAfter || LateAfter >= FenceAfter || LateAfter < 2*BeatInterval {
		t.Error("a replica is called silent before it must have stopped, or late before it is")
	}
}

func TestARecordOfAnotherReplicaIsCurrentWithinTheInterval(t *testing.T) {
	for name, c := range map[string]struct {
		record Record
		want   bool
	}{
		"a moment ago":                         {Record{Used: noon.Add(-time.Second)}, true},
		"an interval ago":                      {Record{Used: noon.Add(-time.Minute)}, false},
		"by a clock that is a little ahead":    {Record{Used: noon.Add(Ahead)}, true},
		"by a clock that is wrong":             {Record{Used: noon.Add(Ahead + 1)}, false},
		"none":                                 {Record{}, false},
		"of an instance that is to be deleted": {Record{Used: noon, Ending: true}, false},
	} {
		if got := c.record.Current(noon, time.Minute); got != c.want {
			t.Errorf("%s: current is %v", name, got)
		}
	}
}

func TestARecordIsReadFromALease(t *testing.T) {
	seconds := int32(90)
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: noon}, LeaseDurationSeconds: &seconds}}
	if got := RecordOf(lease); got != (Record{Used: noon, Covers: 90 * time.Second}) {
		t.Errorf("got %+v", got)
	}
	lease.Annotations = map[string]string{placement.AnnotationEnding: "x"}
	if got := RecordOf(lease); !got.Ending {
		t.Errorf("got %+v", got)
	}
	if RecordOf(nil) != (Record{}) || RecordOf(&coordinationv1.Lease{}) != (Record{}) {
		t.Error("nothing says something")
	}
}

// The monotonic clock does not see that the machine slept, and the wall clock may be set back.
func TestTheLongerOfTwoMeasuresOfTimeCounts(t *testing.T) {
	start := time.Now()
	for name, c := range map[string]struct {
		to   time.Time
		want time.Duration
	}{
		"both agree":                       {start.Add(time.Minute), time.Minute},
		"the machine slept for an hour":    {clocktest.SetWall(start.Add(time.Minute), time.Hour), time.Hour + time.Minute},
		"the wall clock was set back":      {clocktest.SetWall(start.Add(time.Minute), -time.Hour), time.Minute},
		"neither has moved, as in a pause": {start, 0},
	} {
		if got := Elapsed(start, c.to); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAFenceOpensWithARenewalAndClosesWithoutOne(t *testing.T) {
	var f Fence
	start := time.Now()
	if _, ok := f.Age(start); ok || f.Open(start) {
		t.Error("a fence is open before the first renewal")
	}
	f.Renew(start)
	if !f.Open(start.Add(FenceAfter-1)) || f.Open(start.Add(FenceAfter)) {
		t.Error("a fence does not close at its time")
	}
	f.Renew(start.Add(time.Hour))
	if left := f.Left(start.Add(time.Hour + 10*time.Second)); left != FenceAfter-10*time.Second {
		t.Errorf("%v is left", left)
	}
	if !(*Fence)(nil).Open(start) {
		t.Error("no fence keeps somebody from serving")
	}
}

func TestACoverageEnds(t *testing.T) {
	start := time.Now()
	c := &Coverage{From: start, For: time.Minute}
	if c.Left(start.Add(time.Minute-1)) <= 0 || c.Left(start.Add(time.Minute)) > 0 || (*Coverage)(nil).Left(start) > 0 {
		t.Error("a coverage does not end at its time")
	}
}
