// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

// replica writes the Lease of a replica of the data plane that was renewed some time ago.
func (w *world) replica(name string, age time.Duration) {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = placement.SystemNamespace, placement.ReplicaLeasePrefix+name
	_ = w.runtime.Delete(context.Background(), lease)
	lease.ResourceVersion = ""
	lease.Labels = map[string]string{placement.LabelReplica: name}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &name, &metav1.MicroTime{Time: w.now().Add(-age)}
	if err := w.runtime.Create(context.Background(), lease); err != nil {
		w.t.Fatal(err)
	}
}

// covered writes what a replica of the data plane records.
func (w *world) covered(at time.Time, covers time.Duration) {
	w.t.Helper()
	lease, seconds := w.lease(), int32(covers/time.Second)
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &metav1.MicroTime{Time: at}, &seconds
	if err := w.runtime.Update(context.Background(), lease); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantTaken(what string, lifecycle map[string]any, want bool) {
	w.t.Helper()
	_, deletes := lifecycle["deleteAfterUnused"]
	w.patches = nil
	if err := w.reconcile(); err != nil {
		w.t.Fatal(err)
	}
	if got := slices.Contains(w.patches, "removed"); deletes && got != want {
		w.t.Errorf("%s: deleted: %v, want %v", what, got, want)
	}
	if !deletes {
		if got := w.cause() == "Unused"; got != want {
			w.t.Errorf("%s: asleep: %v, want %v", what, got, want)
		}
	}
}

// One replica of two that is in doubt keeps what is unused: from sleep until it has stopped serving for
// certain, from deletion until it is given up.
func TestAReplicaInDoubtKeepsWhatIsUnused(t *testing.T) {
	sleep, deletion := map[string]any{"sleepAfterUnused": "1h"}, map[string]any{"deleteAfterUnused": "1h"}
	for name, c := range map[string]struct {
		lifecycle map[string]any
		age       time.Duration
		taken     bool
	}{
		"it renews its Lease: sleep":                                  {sleep, inuse.BeatInterval, true},
		"it renews its Lease: deletion":                               {deletion, inuse.BeatInterval, true},
		"it is late: no sleep":                                        {sleep, inuse.LateAfter + time.Second, false},
		"it is late: no deletion":                                     {deletion, inuse.LateAfter + time.Second, false},
		"it has stopped: sleep":                                       {sleep, inuse.SilentAfter + time.Second, true},
		"it may refuse its callers: no deletion":                      {deletion, inuse.SilentAfter + time.Second, false},
		"it was silent for long: no deletion until its Lease is gone": {deletion, inuse.GivenUpAfter + time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLife(t, c.lifecycle)
			w.settle()
			w.pass(2 * time.Hour)
			w.replica("a", 0)
			w.replica("b", c.age)
			w.wantTaken(name, c.lifecycle, c.taken)
			if c.taken {
				return
			}
			result, err := w.reconciler().Reconcile(t.Context(), testRequest)
			if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > lifecycle.HoldRecheck {
				t.Errorf("it is looked at again in %v, error %v: nothing else tells that the doubt has ended", result.RequeueAfter, err)
			}
			w.replica("b", 0)
			w.wantTaken("when it renews its Lease again", c.lifecycle, true)
		})
	}
}

// lateReplica is an API server that knows of a replica since it was asked first.
type lateReplica struct {
	client.Reader
	lease coordinationv1.Lease
	asked *int
}

func (l lateReplica) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.Reader.List(ctx, list, opts...)
	if leases, ok := list.(*coordinationv1.LeaseList); ok {
		if *l.asked++; *l.asked > 1 {
			leases.Items = append(leases.Items, l.lease)
		}
	}
	return err
}

func TestAReplicaThatTheFirstLookHasNotSeenCounts(t *testing.T) {
	for _, lifecycle := range []map[string]any{{"sleepAfterUnused": "1h"}, {"deleteAfterUnused": "1h"}} {
		w := newLife(t, lifecycle)
		w.settle()
		w.pass(2 * time.Hour)
		late := coordinationv1.Lease{}
		late.Namespace, late.Name, late.Labels = placement.SystemNamespace, "late", map[string]string{placement.LabelReplica: "x"}
		late.Spec.RenewTime = &metav1.MicroTime{Time: w.now().Add(-inuse.LateAfter - time.Second)}
		asked := 0
		w.liveRuntime = lateReplica{w.runtime, late, &asked}
		w.wantTaken("late, which the first look did not know", lifecycle, false)
		if asked != 2 {
			t.Errorf("the API server was asked %d times", asked)
		}
	}
}

// A replica may let an instance be used for as long as its record covers, whatever the interval is by
// now: the operator may have shortened it a moment ago.
func TestWhatARecordCoversCountsAsUsed(t *testing.T) {
	for _, lifecycle := range []map[string]any{{"sleepAfterUnused": "1h"}, {"deleteAfterUnused": "1h"}} {
		w := newLife(t, lifecycle)
		w.settle()
		w.covered(w.now(), 10*time.Minute)
		w.pass(time.Hour + 10*time.Minute + inuse.Margin - time.Second)
		w.wantTaken("an hour after the last use that is covered, within the margin", lifecycle, false)
		w.pass(time.Second)
		w.wantTaken("after that", lifecycle, true)
	}
}

// The use that comes between the last look and the deletion wins.
func TestAUseThatIsRecordedAfterTheLastLookKeepsTheInstance(t *testing.T) {
	lifecycle := map[string]any{"deleteAfterUnused": "1h"}
	w := newLife(t, lifecycle)
	w.settle()
	w.pass(2 * time.Hour)
	uses := 0
	w.failWrites = func(verb string, obj runtime.Object) error {
		if lease, ok := obj.(*coordinationv1.Lease); ok && verb == "patch" && lease.Annotations[placement.AnnotationEnding] != "" {
			uses++
			w.covered(w.now(), 90*time.Second)
		}
		return nil
	}
	w.wantTaken("it is used while it is about to be deleted", lifecycle, false)
	if uses != 1 {
		t.Errorf("the Lease was marked %d times", uses)
	}
	w.failWrites = nil
	w.settle()
	if _, marked := w.lease().Annotations[placement.AnnotationEnding]; marked {
		t.Error("it is marked for good")
	}
}

func TestAMarkThatWasLeftBehindIsTakenAway(t *testing.T) {
	w := newLife(t, map[string]any{"deleteAfterUnused": "24h"})
	w.settle()
	lease := w.lease()
	lease.Annotations[placement.AnnotationEnding] = "by controllers that ended here"
	if err := w.runtime.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if _, marked := w.lease().Annotations[placement.AnnotationEnding]; marked {
		t.Error("nobody can use it for good")
	}
}

// stopped is an API server whose answer arrives after the controllers were stopped for a while.
type stopped struct {
	client.Reader
	w *world
}

func (s stopped) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := s.Reader.List(ctx, list, opts...)
	if _, ok := list.(*coordinationv1.LeaseList); ok {
		then := s.w.now().Add(lookLasts + time.Second)
		s.w.now = func() time.Time { return then }
	}
	return err
}

func TestALookThatIsOldIsNotActedOn(t *testing.T) {
	lifecycle := map[string]any{"deleteAfterUnused": "1h"}
	w := newLife(t, lifecycle)
	w.settle()
	w.pass(2 * time.Hour)
	w.liveRuntime = stopped{w.runtime, w}
	w.wantTaken("the controllers were stopped between the look and the deletion", lifecycle, false)
	w.liveRuntime = nil
	w.pass(0)
	w.wantTaken("when they look again", lifecycle, true)
}

// A clock of the controllers that is ahead makes nothing unused, and ends nothing before its time;
// nobody knows whether it is that clock or the API server's, so nothing is taken for being unused.
func TestAClockThatIsWrongTakesNothing(t *testing.T) {
	for name, lifecycle := range map[string]map[string]any{
		"sleep":                   {"sleepAfterUnused": "1h"},
		"deletion":                {"deleteAfterUnused": "1h"},
		"the end of the lifetime": {"shutdownTime": "2026-03-01T14:00:00Z", "shutdownPolicy": "Delete"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLife(t, lifecycle)
			w.settle()
			w.reconciler()
			w.clock.Heard(inuse.Runtime, noon)
			w.pass(24 * time.Hour)
			w.clock.Heard(inuse.Runtime, noon) // which says that no time has passed
			w.patches = nil
			r := w.reconciler()
			r.now = w.clock.Earlier
			if _, err := r.Reconcile(t.Context(), testRequest); err != nil {
				t.Fatal(err)
			}
			if slices.Contains(w.patches, "removed") || w.cause() != "" {
				t.Errorf("by a clock that is a day ahead it is taken: %v %q", w.patches, w.cause())
			}
			w.clock.Heard(inuse.Runtime, w.now())
			if _, err := r.Reconcile(t.Context(), testRequest); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(w.patches, "removed") && w.cause() == "" {
				t.Error("when the clocks agree, it is not taken")
			}
		})
	}
}

// What the controllers record themselves is never older than it is.
func TestAChangeOfTheSpecIsRecordedByTheLaterClock(t *testing.T) {
	w := newLife(t, map[string]any{"sleepAfterUnused": "1h"})
	w.settle()
	w.reconciler()
	w.clock.Heard(inuse.Runtime, noon.Add(5*time.Hour)) // the controllers are behind
	w.change("blue", "color")
	w.settle()
	if got := w.lease().Spec.RenewTime.Time; got.Before(noon.Add(5 * time.Hour)) {
		t.Errorf("the record says %v", got)
	}
}

// A replica records a use while the controllers count a change of the spec as one.
func TestAUseThatIsRecordedMeanwhileIsNotTakenBack(t *testing.T) {
	w := newLife(t, map[string]any{"sleepAfterUnused": "1h"})
	w.settle()
	w.pass(time.Hour)
	later, times := w.now().Add(30*time.Second), 0 // by a replica whose clock is a little ahead
	w.failWrites = func(verb string, obj runtime.Object) error {
		if _, ok := obj.(*coordinationv1.Lease); ok && verb == "patch" && times == 0 {
			times++
			w.covered(later, 90*time.Second)
		}
		return nil
	}
	w.change("blue", "color")
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if lease := w.lease(); times != 1 || !lease.Spec.RenewTime.Equal(&metav1.MicroTime{Time: later}) || lease.Annotations[place.AnnotationGeneration] != "2" {
		t.Errorf("after %d writes of a replica the Lease is %+v", times, lease)
	}
}
