// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// tried counts the instances whose pods were refused.
func (f *fleet) tried() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, b := range f.instances {
		if b.tried > 0 {
			n++
		}
	}
	return n
}

// Each instance that was refused counted as updated, so the turn went through the whole fleet; and when the
// cause was mended, all of them took the change at once.
func TestAChangeWhosePodIsRefusedStopsAtOneAndGoesOnWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 50, settings())
		f.change("a")
		f.snapshot(time.Second)
		f.set(func() { f.refuses = true })
		f.changePods("other", f.first(50)...)
		snap := f.snapshot(time.Hour)
		if f.tried() != 1 || snap.Phase != sandbarv1alpha1.RolloutPaused || snap.Reason != ReasonFailed || snap.Failed != 1 || snap.Updated != 0 {
			t.Fatalf("%d were tried; %+v", f.tried(), snap)
		}
		if !strings.Contains(snap.Message, "sb-000") || !strings.Contains(snap.Message, "no such class") || strings.Contains(snap.Message, "Ready before") {
			t.Errorf("the message does not say what is refused: %s", snap.Message)
		}
		if f.tracker.Turn("t", Request{Placement: "new", Target: "a", Want: "a"}) {
			t.Error("a new instance takes what has failed")
		}
		f.set(func() { f.refuses = false })
		snap = f.snapshot(time.Hour)
		if snap.Phase != sandbarv1alpha1.RolloutComplete || f.with("a", "other") != 50 || f.worst > 5 {
			t.Errorf("%d were not Ready at once, want at most 5; %+v", f.worst, snap)
		}
		f.stop()
	})
}

// An instance that is refused has its turn still, for this change and for no other.
func TestATurnThatIsHeldIsNotForTheNextChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settings()
		f := newFleet(t, 3, s)
		f.change("a")
		f.snapshot(time.Second)
		f.set(func() { f.refuses = true })
		f.changePods("other", f.first(3)...)
		f.snapshot(time.Hour)
		s.Paused = true
		f.tracker.Configure("t", Config{Settings: s, Target: "a"})
		f.set(func() { f.refuses = false })
		f.changePods("third", f.first(3)...)
		if snap := f.snapshot(time.Hour); f.with("a", "third") != 0 || snap.Reason != ReasonPaused {
			t.Errorf("%d take a change although rollouts are paused; %+v", f.with("a", "third"), snap)
		}
		f.stop()
	})
}

// When the turn of an instance is over, what it has taken gives it no right to take it again.
func TestATurnThatIsOverIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, settings())
		f.change("a")
		f.change("b")
		f.snapshot(time.Hour)
		again := Request{Placement: "sb-000", Target: "b", Want: "b", Exists: true}
		if f.tracker.Turn("t", again) {
			t.Error("it takes a turn that nobody has granted")
		}
		f.stop()
	})
}
