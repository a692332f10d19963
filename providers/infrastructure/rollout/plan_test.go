// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// fleet is a set of instances that take changes as the reconciler of package instance has them do.
type fleet struct {
	t         *testing.T
	tracker   *Tracker
	settings  Settings
	target    string
	instances map[string]*box
	// startup is how long an instance takes to be Ready after a change; nil: never.
	startup func(revision string, b *box) (time.Duration, bool)
	worst   int
	behind  string
	// pods are what the instances are to have that is not part of the revision, as a base or the isolation.
	pods map[string]string
	// refuses is true while the runtime cluster refuses the pods of changes.
	refuses bool
	// unseen are placements whose instances are never observed.
	unseen []string
	stop   context.CancelFunc
	// mu guards the instances and is held while one is reconciled.
	mu sync.Mutex
}

type box struct {
	name, revision string
	pod            string
	resting        bool
	ready          time.Time // zero: not Ready
	updating       time.Time
	broken         bool // fails whatever it runs
	taken          int
	waits          bool
	stuck          bool // each reconcile ends with an error
	refused        bool // now
	tried          int  // how often it was refused
}

func newFleet(t *testing.T, size int, settings Settings) *fleet {
	f := &fleet{t: t, settings: settings, target: "a", instances: map[string]*box{}}
	f.startup = func(string, *box) (time.Duration, bool) { return 5 * time.Second, true }
	for i := range size {
		name := fmt.Sprintf("sb-%03d", i)
		f.instances[name] = &box{name: name, revision: "a", ready: time.Now().Add(-time.Hour)}
	}
	f.start()
	return f
}

// start starts a tracker, as a process that takes over does.
func (f *fleet) start() {
	if f.stop != nil {
		f.stop()
		synctest.Wait()
	}
	ctx, stop := context.WithCancel(f.t.Context())
	f.stop = stop
	f.tracker = NewTracker(time.Now, func(context.Context, string, string) (map[string]bool, error) {
		names := map[string]bool{}
		for name := range f.instances {
			names[name] = true
		}
		for _, name := range f.unseen {
			names[name] = true
		}
		return names, nil
	})
	tracker := f.tracker
	go func() { _ = tracker.Start(ctx) }()
	go func() {
		for {
			select {
			case <-tracker.Changed():
			case <-ctx.Done():
				return
			}
		}
	}()
}

// change makes another revision the present one.
func (f *fleet) change(target string) {
	f.target = target
	f.tracker.Configure("t", Config{Settings: f.settings, Target: target})
	for _, b := range f.instances {
		f.reconcile(b, false)
	}
}

// changePods makes another pod the one of some instances, which is a change with the same target.
func (f *fleet) changePods(pod string, boxes ...*box) {
	f.set(func() {
		f.pods = map[string]string{}
		for _, b := range boxes {
			f.pods[b.name] = pod
		}
	})
	for _, b := range boxes {
		f.reconcile(b, false)
	}
}

// set changes something that reconciles read.
func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// first are the first instances by name.
func (f *fleet) first(n int) []*box {
	var boxes []*box
	for _, name := range slices.Sorted(maps.Keys(f.instances))[:n] {
		boxes = append(boxes, f.instances[name])
	}
	return boxes
}

// seen is what the reconciler of an instance takes for the present revision: it may be behind.
func (f *fleet) seen(*box) string {
	if f.behind != "" {
		return f.behind
	}
	return f.target
}

// reconcile does what the reconciler of an instance does for its rollout.
func (f *fleet) reconcile(b *box, edited bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.stuck {
		return
	}
	b.waits, b.refused = false, false
	if want := f.seen(b) + f.pods[b.name]; b.revision+b.pod != want {
		takes := f.tracker.Turn("t", Request{Placement: b.name, Target: f.seen(b), Want: want, Exists: true, Changes: edited})
		b.waits = !takes
		switch {
		case takes && f.refuses:
			f.refuse(b)
		case takes:
			f.take(b, edited)
		}
	}
	if !b.refused && !b.updating.IsZero() && Settled(f.settings, b.updating, b.ready, time.Now()) {
		b.updating = time.Time{}
	}
	f.observe(b)
}

// refuse leaves an instance what it has, and has it try again.
func (f *fleet) refuse(b *box) {
	b.refused, b.tried = true, b.tried+1
	if b.updating.IsZero() {
		b.updating = time.Now()
	}
	time.AfterFunc(time.Minute, func() { f.reconcile(b, false) })
}

func (f *fleet) take(b *box, edited bool) {
	wasReady := !b.ready.IsZero()
	b.revision, b.pod, b.taken = f.seen(b), f.pods[b.name], b.taken+1
	if b.resting {
		return
	}
	if !edited && (wasReady || !b.updating.IsZero()) {
		b.updating = time.Now()
	}
	b.ready = time.Time{}
	if after, ok := f.startup(b.revision, b); ok && !b.broken {
		revision, pod := b.revision, b.pod
		time.AfterFunc(after, func() {
			f.mu.Lock()
			same := b.revision == revision && b.pod == pod
			if same {
				b.ready = time.Now()
			}
			f.mu.Unlock()
			if same {
				f.reconcile(b, false)
			}
		})
	}
	unready := 0
	for _, other := range f.instances {
		if other.ready.IsZero() && !other.resting && !other.broken && other.updating != (time.Time{}) {
			unready++
		}
	}
	f.worst = max(f.worst, unready)
}

func (f *fleet) observe(b *box) {
	_, starts := f.startup(b.revision, b)
	o := Observation{
		Placement: b.name, Target: f.seen(b), Outdated: b.waits, Resting: b.resting, Ready: b.ready, Updating: b.updating,
		Failing: b.ready.IsZero() && (!starts || b.broken) && !b.resting,
		Wake:    func() { go f.reconcile(b, false) },
	}
	if b.refused {
		o.Ready, o.Failing, o.Refused = time.Time{}, true, "no such class"
	}
	recheck := f.tracker.Observe("t", o)
	if recheck > 0 {
		time.AfterFunc(recheck, func() { f.reconcile(b, false) })
	}
}

// snapshot waits for all that follows within d and returns how far the rollout is.
func (f *fleet) snapshot(d time.Duration) Snapshot {
	time.Sleep(d)
	synctest.Wait()
	snap, _ := f.tracker.Snapshot("t", f.target)
	return snap
}

// with counts the instances that have a revision, and the pod if one is named.
func (f *fleet) with(revision string, pod ...string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, b := range f.instances {
		if b.revision == revision && (len(pod) == 0 || b.pod == pod[0]) {
			n++
		}
	}
	return n
}

func settings() Settings { return SettingsOf(nil, nil) }

func TestARolloutKeepsToItsBudgetAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 100, settings())
		f.startup = func(_ string, b *box) (time.Duration, bool) {
			return time.Duration(1+rand.IntN(20)) * time.Second, true
		}
		f.change("a")
		if snap := f.snapshot(time.Second); snap.Phase != sandbarv1alpha1.RolloutComplete {
			t.Fatalf("before any change: %+v", snap)
		}
		f.change("b")
		snap := f.snapshot(time.Hour)
		if snap.Phase != sandbarv1alpha1.RolloutComplete || f.with("b") != 100 || snap.Updated != 100 || snap.Ready != 100 {
			t.Errorf("after an hour: %+v, %d have the change", snap, f.with("b"))
		}
		if f.worst > 10 || f.worst < 2 {
			t.Errorf("%d instances were not Ready at once, want at most 10 of 100, and more than one in the end", f.worst)
		}
		for _, b := range f.instances {
			if b.taken != 1 {
				t.Errorf("%s took the change %d times", b.name, b.taken)
			}
		}
		f.stop()
	})
}

func TestAChangeThatBreaksAllBreaksOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 100, settings())
		f.startup = func(revision string, _ *box) (time.Duration, bool) { return time.Second, revision != "bad" }
		f.change("a")
		f.snapshot(time.Second)
		f.change("bad")
		snap := f.snapshot(24 * time.Hour)
		if f.with("bad") != 1 || snap.Phase != sandbarv1alpha1.RolloutPaused || snap.Reason != ReasonFailed || snap.Failed != 1 {
			t.Fatalf("%d instances have it; %+v", f.with("bad"), snap)
		}
		if !strings.Contains(snap.Message, "sb-000") {
			t.Errorf("the message does not name the instance: %s", snap.Message)
		}
		if f.tracker.Turn("t", Request{Placement: "new", Target: "bad", Want: "bad"}) {
			t.Error("a new instance gets what has failed")
		}
		f.change("a")
		snap = f.snapshot(time.Minute)
		if snap.Phase != sandbarv1alpha1.RolloutComplete || f.with("a") != 100 {
			t.Errorf("on the way back: %+v", snap)
		}
		for _, b := range f.instances {
			if want := map[bool]int{true: 2}[b.name == "sb-000"]; b.taken != want {
				t.Errorf("%s took %d changes, want %d", b.name, b.taken, want)
			}
		}
		f.stop()
	})
}

// The instances know how far a rollout was; a process that takes over begins with no more than its
// share, and does not take a paused one for one that goes on.
func TestAnotherProcessGoesOnWhereTheFirstStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settings()
		s.MaxUnavailable = intstr.FromInt32(5)
		f := newFleet(t, 60, s)
		f.startup = func(string, *box) (time.Duration, bool) { return 30 * time.Second, true }
		f.change("a")
		f.snapshot(time.Second)
		f.change("b")
		for range 40 {
			f.snapshot(25 * time.Second)
			f.start()
			f.tracker.Configure("t", Config{Settings: s, Target: "b"})
			for _, b := range f.instances { // one after the other, as they are listed
				f.reconcile(b, false)
				time.Sleep(50 * time.Millisecond)
			}
		}
		snap := f.snapshot(time.Hour)
		if f.worst > 5 || snap.Phase != sandbarv1alpha1.RolloutComplete {
			t.Errorf("%d instances were not Ready at once, want at most 5; %+v", f.worst, snap)
		}
		f.stop()
	})
}

func TestAPauseOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, settings())
		f.target = "bad"
		f.tracker.Configure("t", Config{Settings: f.settings, Target: "bad", WasPaused: true})
		if f.tracker.Turn("t", Request{Placement: "new", Target: "bad", Want: "bad"}) {
			t.Error("a new instance gets what has failed, because the others are not known yet")
		}
		for _, b := range f.instances {
			b.updating = time.Now().Add(-time.Hour)
			b.ready, b.revision = time.Time{}, "bad"
			f.reconcile(b, false)
			break
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := f.with("bad"); got != 1 {
			t.Errorf("%d instances have what has failed", got)
		}
		f.stop()
	})
}

func TestInstancesThatTheChangeCannotHarmDoNotHoldItUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 20, settings())
		for i := range 5 {
			crashing := f.instances[fmt.Sprintf("sb-%03d", i)]
			crashing.broken, crashing.ready = true, time.Time{}
			asleep := f.instances[fmt.Sprintf("sb-%03d", 19-i)]
			asleep.resting, asleep.ready = true, time.Time{}
		}
		f.change("a")
		f.snapshot(time.Second)
		f.change("b")
		snap := f.snapshot(time.Hour)
		if snap.Phase != sandbarv1alpha1.RolloutComplete || f.with("b") != 20 || snap.Failed != 0 {
			t.Errorf("%+v; %d have the change", snap, f.with("b"))
		}
		f.stop()
	})
}

// What nothing runs of proves nothing: it comes last.
func TestWhatSleepsTakesAChangeWhenThoseThatRunHaveProvedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4, settings())
		f.startup = func(revision string, _ *box) (time.Duration, bool) { return time.Second, revision != "bad" }
		f.instances["sb-000"].resting = true
		f.change("a")
		f.snapshot(time.Second)
		f.change("bad")
		f.snapshot(time.Hour)
		if got := f.instances["sb-000"].revision; got != "a" {
			t.Errorf("the one that sleeps has %s", got)
		}
		f.stop()
	})
}

func TestWhoChangesAnywayTakesTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settings()
		s.Paused = true
		f := newFleet(t, 3, s)
		f.change("a")
		f.snapshot(time.Second)
		f.change("b")
		snap := f.snapshot(time.Minute)
		if f.with("b") != 0 || snap.Reason != ReasonPaused {
			t.Fatalf("paused by the operator: %d have the change, %+v", f.with("b"), snap)
		}
		edited := Request{Placement: "sb-000", Target: "b", Want: "b", Exists: true, Changes: true, Spec: map[string]any{"size": int64(1), "more": "b"}}
		if f.tracker.Turn("t", edited) {
			t.Error("an instance whose tenant has edited it takes the change although it is paused")
		}
		f.tracker.Configure("t", Config{Settings: s, Target: "b", New: []Field{{Path: []string{"more"}, Default: "b"}}})
		if f.tracker.Turn("t", edited) {
			t.Error("a default counts as something that only the change knows")
		}
		edited.Spec = map[string]any{"more": "c"}
		if !f.tracker.Turn("t", edited) {
			t.Error("what its tenant says would be ignored")
		}
		s.Paused = false
		f.tracker.Configure("t", Config{Settings: s, Target: "b"})
		f.snapshot(500 * time.Millisecond)
		if !f.tracker.Turn("t", Request{Placement: "new", Target: "b", Want: "b"}) {
			t.Error("a new instance does not get the present revision")
		}
		f.stop()
	})
}

// A cache that is behind says that an instance has not taken what it has taken a moment ago; a
// second answer must not take it back.
func TestATurnIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, settings())
		f.change("a")
		f.snapshot(time.Second)
		f.change("b")
		f.snapshot(500 * time.Millisecond)
		if !f.tracker.Turn("t", Request{Placement: "sb-000", Target: "b", Want: "b", Exists: true}) {
			t.Error("the turn was taken back")
		}
		f.stop()
	})
}

// Between a change and the first look at an instance nothing is known of it. Were it taken for up to
// date, the former graph would be taken from kro.
func TestNobodyIsUpToDateUntilLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, settings())
		f.change("a")
		f.snapshot(time.Second)
		f.target = "b"
		f.tracker.Configure("t", Config{Settings: f.settings, Target: "b"})
		if snap := f.snapshot(250 * time.Millisecond); snap.Phase == sandbarv1alpha1.RolloutComplete || snap.Updated != 0 {
			t.Errorf("nobody was looked at, and it says %+v", snap)
		}
		f.stop()
	})
}

// On the way back the tracker knows the target a moment before the instances do. A turn that was
// granted for one revision is not taken for another: an instance that had not noticed got what had
// failed, because the change was taken back.
func TestATurnIsForOneRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4, settings())
		f.startup = func(revision string, _ *box) (time.Duration, bool) { return time.Second, revision != "bad" }
		f.change("a")
		f.snapshot(time.Second)
		f.change("bad")
		f.snapshot(time.Hour)
		f.mu.Lock()
		f.behind, f.target = "bad", "a"
		f.mu.Unlock()
		f.tracker.Configure("t", Config{Settings: f.settings, Target: "a"})
		if snap := f.snapshot(10 * time.Second); snap.Updated != 0 {
			t.Errorf("instances that do not know the revision count as updated: %+v", snap)
		}
		if got := f.with("bad"); got != 1 {
			t.Errorf("%d instances have what has failed, want the one that had it", got)
		}
		f.mu.Lock()
		f.behind = ""
		f.mu.Unlock()
		f.change("a")
		if snap := f.snapshot(time.Minute); snap.Phase != sandbarv1alpha1.RolloutComplete || f.with("a") != 4 {
			t.Errorf("%+v", snap)
		}
		f.stop()
	})
}

func TestMaxFailedIsWhatARolloutBears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settings()
		s.MaxFailed, s.MaxUnavailable = intstr.FromInt32(3), intstr.FromInt32(4)
		f := newFleet(t, 40, s)
		f.startup = func(revision string, b *box) (time.Duration, bool) {
			return time.Second, revision != "b" || b.name == "sb-009" || b.name > "sb-010"
		}
		f.change("a")
		f.snapshot(time.Second)
		f.change("b")
		snap := f.snapshot(24 * time.Hour)
		if snap.Failed != 3 || snap.Phase != sandbarv1alpha1.RolloutPaused {
			t.Errorf("%+v, want three failures and a pause", snap)
		}
		f.stop()
	})
}

func TestSharesAreRoundedUpAndNeverNothing(t *testing.T) {
	for _, tc := range []struct {
		value intstr.IntOrString
		total int
		want  int
	}{
		{intstr.FromString("10%"), 0, 1},
		{intstr.FromString("10%"), 9, 1},
		{intstr.FromString("10%"), 11, 2},
		{intstr.FromString("100%"), 7, 7},
		{intstr.FromInt32(3), 1, 3},
		{intstr.FromString("x"), 100, 1},
		{intstr.FromInt32(-1), 100, 1},
	} {
		if got := share(tc.value, tc.total); got != tc.want {
			t.Errorf("%s of %d is %d, want %d", tc.value.String(), tc.total, got, tc.want)
		}
	}
}

func TestATemplateOverridesTheProvider(t *testing.T) {
	of := func(value string, seconds int32, paused bool) *sandbarv1alpha1.Rollout {
		share := intstr.Parse(value)
		return &sandbarv1alpha1.Rollout{MaxUnavailable: &share, MinReadySeconds: &seconds, Paused: &paused}
	}
	got := SettingsOf(&sandbarv1alpha1.Rollout{MinReadySeconds: new(int32(0))}, of("7", 3, true))
	if got.MaxUnavailable != intstr.FromInt32(7) || got.MinReady != 0 || !got.Paused || got.ProgressDeadline != DefaultProgressDeadline {
		t.Errorf("%+v", got)
	}
}

// kro calls an instance complete by the former graph for a moment after the graph has changed.
func TestAnInstanceThatNeverCeasedToBeReadyIsWaitedForLonger(t *testing.T) {
	s := Settings{MinReady: 4 * time.Second}
	took := time.Now()
	for what, c := range map[string]struct {
		ready, now time.Duration // after it took the change
		want       bool
	}{
		"it has not moved yet":                  {-time.Hour, 29 * time.Second, false},
		"it does not move":                      {-time.Hour, 30 * time.Second, true},
		"it became Ready as it took the change": {0, 29 * time.Second, false},
		"it is Ready again":                     {10 * time.Second, 13 * time.Second, false},
		"it is Ready again for long enough":     {10 * time.Second, 14 * time.Second, true},
	} {
		if got := Settled(s, took, took.Add(c.ready), took.Add(c.now)); got != c.want {
			t.Errorf("%s: settled: %v", what, got)
		}
	}
}
