// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// The reconciler judges by a clock that goes by the servers' where this machine's is ahead. A tracker with
// another clock had each instance that was being updated reconciled every millisecond, and one whose clock
// was ahead by the deadline counted each as failed.
func TestTheTrackerJudgesByTheClockOfThoseWhoObserve(t *testing.T) {
	var clock inuse.Clock
	clock.Heard(inuse.Runtime, time.Now().Add(-DefaultProgressDeadline))
	tracker := NewTracker(clock.Earlier, nil)
	s := settings()
	tracker.Configure("t", Config{Settings: s, Target: "b"})
	updating, ready := clock.Earlier().Add(-5*time.Second), clock.Earlier().Add(-2*time.Second)
	observation := Observation{Placement: "p", Target: "b", Ready: ready, Updating: updating, Wake: func() {}}
	if got, want := tracker.Observe("t", observation), s.MinReady-2*time.Second; (got - want).Abs() > time.Second {
		t.Errorf("an instance that is settled in %v is observed again after %v", want, got)
	}
	observation.Ready = time.Time{}
	tracker.Observe("t", observation)
	if tracker.templates["t"].members["p"].failed(s, tracker.now()) {
		t.Error("an update that began 5 s ago has failed")
	}
}

// A change of a base or of the isolation has the same target as the one before. What has settled with that
// one proves nothing of it: the first step was as large as maxUnavailable.
func TestAChangeWithTheSameTargetBeginsWithOneInstanceToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 100, settings())
		f.startup = func(_ string, b *box) (time.Duration, bool) { return time.Second, b.pod != "bad" }
		f.change("a")
		f.snapshot(time.Second)
		f.change("b")
		if snap := f.snapshot(2 * time.Hour); snap.Phase != sandbarv1alpha1.RolloutComplete {
			t.Fatalf("%+v", snap)
		}
		// Those that are new are not settled: nothing of them says that there is another change.
		for _, b := range f.first(50) {
			fresh := &box{name: "new-" + b.name, revision: "b", ready: time.Now()}
			f.set(func() {
				delete(f.instances, b.name)
				f.instances[fresh.name] = fresh
			})
			f.reconcile(fresh, false)
		}
		f.snapshot(time.Second)
		f.changePods("bad", f.first(50)...)
		if snap := f.snapshot(time.Hour); f.with("b", "bad") != 1 || snap.Failed != 1 {
			t.Errorf("%d instances have what breaks them; %+v", f.with("b", "bad"), snap)
		}
		f.stop()
	})
}

// kro may take a change up only half a minute after it was written. With a deadline shorter than that an
// instance had failed in the moment in which it ceased to be Ready.
func TestTheDeadlineBeginsWhenAnInstanceCeasesToBeReady(t *testing.T) {
	start := time.Now()
	s := settings()
	s.ProgressDeadline = 20 * time.Second
	for what, c := range map[string]struct {
		unready, now time.Duration // after the change was written; unready 0: not known
		left         time.Duration
	}{
		"it ceases to be Ready when the deadline has passed": {25 * time.Second, 25 * time.Second, 20 * time.Second},
		"it has not been Ready for a while":                  {25 * time.Second, 44 * time.Second, time.Second},
		"it has not been Ready in time":                      {25 * time.Second, 45 * time.Second, 0},
		"it was not Ready before":                            {-time.Minute, 19 * time.Second, time.Second},
		"it is not known since when it is not Ready":         {0, 20 * time.Second, 0},
		"it is Ready now and then":                           {49 * time.Second, 50 * time.Second, 0},
	} {
		tracker := NewTracker(func() time.Time { return start.Add(c.now) }, nil)
		tracker.Configure("t", Config{Settings: s, Target: "b"})
		o := Observation{Placement: "p", Target: "b", Updating: start, Wake: func() {}}
		if c.unready != 0 {
			o.Unready = start.Add(c.unready)
		}
		left := tracker.Observe("t", o)
		failed := tracker.templates["t"].members["p"].failed(s, tracker.now())
		if left != c.left || failed != (c.left == 0) {
			t.Errorf("%s: failed: %v, observed again after %v, want %v", what, failed, left, c.left)
		}
	}
}

// Nothing is ever observed of a placement that kcp cannot be asked about, and the sweep keeps it. It took
// the place of the first instance, and no rollout of the Template began again.
func TestAPlacementThatIsNeverObservedHoldsARolloutUpForADeadlineAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, settings())
		f.unseen = []string{"sb-lost"}
		f.change("a")
		f.change("b")
		snap := f.snapshot(DefaultProgressDeadline - time.Second)
		if f.with("b") != 0 || snap.Phase != "" {
			t.Errorf("%d took the change while an instance may be in an update; %+v", f.with("b"), snap)
		}
		if snap = f.snapshot(5 * time.Minute); f.with("b") != 3 || snap.Phase != sandbarv1alpha1.RolloutComplete {
			t.Errorf("%d have the change; %+v", f.with("b"), snap)
		}
		f.change("c")
		if snap = f.snapshot(3 * time.Minute); f.with("c") != 3 || snap.Phase != sandbarv1alpha1.RolloutComplete {
			t.Errorf("%d have the next change; %+v", f.with("c"), snap)
		}
		f.stop()
	})
}

func TestOnlyTheProvidersOwnPlacementsAreWaitedFor(t *testing.T) {
	namespace := func(name, provider, template string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{placement.LabelTemplate: template},
			Annotations: map[string]string{placement.AnnotationProvider: provider},
		}}
	}
	going := namespace("going", "ours", "t")
	going.Finalizers, going.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: time.Now()}
	c := fake.NewClientBuilder().WithObjects(going,
		namespace("one", "ours", "t"), namespace("other", "ours", "u"), namespace("theirs", "theirs", "t")).Build()
	got, err := placementsIn(c)(t.Context(), "ours", "t")
	if err != nil || len(got) != 1 || !got["one"] {
		t.Errorf("%v, %v", got, err)
	}
}

// After a start the Template's controller may say nothing for a while, or for ever: while kro does not
// accept the graph, above all. The instances that wake meanwhile took what had failed.
func TestARolloutThatNobodyHasConfiguredIsAsPausedAsItWas(t *testing.T) {
	tracker := NewTracker(time.Now, nil)
	wakes := Request{Placement: "p", Target: "bad", Want: "bad", Exists: true, Changes: true, WasPaused: true}
	if tracker.Turn("t", wakes) {
		t.Error("an instance that wakes takes the revision whose rollout was paused")
	}
	if wakes.WasPaused = false; !tracker.Turn("t", wakes) {
		t.Error("an instance that wakes does not take the revision whose rollout was not paused")
	}
}

// The first to be observed may all be well. Had the Template's status followed them, the pause would have
// ended before the instance that had failed was looked at.
func TestAPauseHoldsUntilAllInstancesAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4, settings())
		f.startup = func(revision string, _ *box) (time.Duration, bool) { return time.Second, revision != "bad" }
		f.target = "bad"
		failed, unready := f.instances["sb-003"], f.instances["sb-002"]
		failed.revision, failed.ready, failed.updating = "bad", time.Time{}, time.Now().Add(-time.Hour)
		unready.ready, unready.broken = time.Time{}, true
		f.tracker.Configure("t", Config{Settings: f.settings, Target: "bad", WasPaused: true})
		for _, b := range f.first(3) {
			f.reconcile(b, false)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if snap, known := f.tracker.Snapshot("t", "bad"); known || f.with("bad") != 1 {
			t.Errorf("%d have what has failed; it says %+v", f.with("bad"), snap)
		}
		f.reconcile(failed, false)
		if snap := f.snapshot(time.Minute); f.with("bad") != 1 || snap.Reason != ReasonFailed {
			t.Errorf("%d have what has failed; it says %+v", f.with("bad"), snap)
		}
		f.stop()
	})
}

// The instance whose turn is the first held up all others, and the rollout was neither failed nor paused.
func TestAnInstanceThatDoesNotTakeItsTurnHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 5, settings())
		f.change("a")
		f.snapshot(time.Second)
		f.target = "b"
		f.tracker.Configure("t", Config{Settings: f.settings, Target: "b"})
		for i, b := range f.first(5) {
			f.reconcile(b, false)
			f.set(func() { b.stuck = i == 0 })
		}
		if snap := f.snapshot(DefaultProgressDeadline); snap.Phase != sandbarv1alpha1.RolloutProgressing {
			t.Errorf("before the deadline: %+v", snap)
		}
		snap := f.snapshot(time.Second)
		if snap.Reason != ReasonFailed || !strings.Contains(snap.Message, "could not give it to 1 in time, as their log says (placements: sb-000)") {
			t.Errorf("%+v", snap)
		}
		stuck := f.instances["sb-000"]
		f.set(func() { stuck.stuck = false })
		f.reconcile(stuck, false)
		if snap := f.snapshot(10 * time.Minute); snap.Phase != sandbarv1alpha1.RolloutComplete || f.with("b") != 5 {
			t.Errorf("it goes on: %d have the change; %+v", f.with("b"), snap)
		}
		f.stop()
	})
}
