// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// noon is when the tests of the lifecycle begin.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newLife is a world at noon with a data plane and an instance of the given lifecycle.
func newLife(t *testing.T, lifecycle map[string]any, onRuntime ...client.Object) *world {
	t.Helper()
	w := newWorld(t, onRuntime...)
	w.now = func() time.Time { return noon }
	w.inKCP.Object["spec"].(map[string]any)["lifecycle"] = lifecycle
	w.heartbeat(-1000 * time.Hour)
	return w
}

// pass lets time pass, in which the data plane serves.
func (w *world) pass(d time.Duration) {
	then := w.now().Add(d)
	w.now = func() time.Time { return then }
	w.heartbeat(-1000 * time.Hour)
}

// heartbeat says that the data plane serves, and since when, from now.
func (w *world) heartbeat(since time.Duration) {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = placement.SystemNamespace, placement.DataPlaneLease
	_ = w.runtime.Delete(context.Background(), lease)
	lease.ResourceVersion = ""
	lease.Spec.RenewTime, lease.Spec.AcquireTime = &metav1.MicroTime{Time: w.now()}, &metav1.MicroTime{Time: w.now().Add(since)}
	if err := w.runtime.Create(context.Background(), lease); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) lease() *coordinationv1.Lease {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: w.id().Namespace(), Name: placement.ActivityLease}
	if err := w.runtime.Get(context.Background(), key, lease); err != nil {
		w.t.Fatal(err)
	}
	return lease
}

// use writes what the data plane writes when the instance is used.
func (w *world) use(at time.Time) {
	w.t.Helper()
	lease := w.lease()
	lease.Spec.RenewTime = &metav1.MicroTime{Time: at}
	if err := w.runtime.Update(context.Background(), lease); err != nil {
		w.t.Fatal(err)
	}
}

// change writes the spec as a tenant does.
func (w *world) change(fields ...any) {
	w.t.Helper()
	value, path := fields[0], []string{"spec"}
	for _, f := range fields[1:] {
		path = append(path, f.(string))
	}
	if err := unstructured.SetNestedField(w.inKCP.Object, value, path...); err != nil {
		w.t.Fatal(err)
	}
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
}

// cause is why the kro instance is suspended; "" when it is not.
func (w *world) cause() string {
	w.t.Helper()
	instance := w.kroInstance()
	cause := instance.GetAnnotations()[placement.AnnotationSuspension]
	if lifecycle.Suspended(instance) != (cause != "") {
		w.t.Errorf("spec.suspended is %v and the cause is %q", lifecycle.Suspended(instance), cause)
	}
	return cause
}

func (w *world) expect(what, cause string) {
	w.t.Helper()
	w.settle()
	if got := w.cause(); got != cause {
		w.t.Errorf("%s: the cause of suspension is %q, want %q", what, got, cause)
	}
}

func TestAnUnusedInstanceSleepsUntilItIsUsed(t *testing.T) {
	before := map[string]float64{}
	for _, change := range []string{"slept", "woke", "deleted"} {
		before[change] = changes(t, change)
	}
	w := newLife(t, map[string]any{"sleepAfterUnused": "1h"})
	w.expect("when it is made", "")
	if _, found, _ := unstructured.NestedFieldNoCopy(w.kroInstance().Object, "spec", "lifecycle"); found {
		t.Error("the lifecycle reaches kro")
	}
	w.pass(time.Hour)
	w.expect("within the lag", "")
	w.pass(time.Minute)
	w.expect("after that", "Unused")
	w.pass(100 * time.Hour)
	w.expect("long after", "Unused")
	w.use(w.now())
	w.expect("when it is used", "")
	w.pass(2 * time.Hour)
	w.expect("unused again", "Unused")
	for change, want := range map[string]float64{"slept": 2, "woke": 1, "deleted": 0} {
		if got := changes(t, change) - before[change]; got != want {
			t.Errorf("%v %s, want %v", got, change, want)
		}
	}
}

// changes is how often the lifecycle has changed an instance so.
func changes(t *testing.T, change string) float64 {
	t.Helper()
	var metric dto.Metric
	if err := lifecycleTotal.WithLabelValues(fixture.Thing.Template, change).Write(&metric); err != nil {
		t.Fatal(err)
	}
	return metric.GetCounter().GetValue()
}

func TestAnInstanceIsLookedAtAgainAtItsDeadlineOnly(t *testing.T) {
	w := newLife(t, map[string]any{"sleepAfterUnused": "1h"})
	for _, step := range []struct {
		passes, want time.Duration
	}{{0, 61 * time.Minute}, {21 * time.Minute, 40 * time.Minute}, {40 * time.Minute, 0}, {time.Hour, 0}} {
		w.pass(step.passes)
		w.settle()
		w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration())) // what is not ready is looked at more often
		w.settle()
		result, err := w.reconciler().Reconcile(t.Context(), testRequest)
		if err != nil || result.RequeueAfter != step.want {
			t.Errorf("after %v: again in %v, want %v; error %v", step.passes, result.RequeueAfter, step.want, err)
		}
	}
}

// No event of the data plane's Lease wakes the instances: their own timers have to do.
func TestADataPlaneThatIsSeenLateIsSeenAtTheDeadline(t *testing.T) {
	w := newLife(t, map[string]any{"sleepAfterUnused": "1h"})
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: placement.DataPlaneLease}}
	if err := w.runtime.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration()))
	w.settle()
	result, err := w.reconciler().Reconcile(t.Context(), testRequest)
	if want := time.Hour + scope.DefaultActivityInterval; err != nil || result.RequeueAfter != want {
		t.Fatalf("again in %v, want %v; error %v", result.RequeueAfter, want, err)
	}
	w.pass(result.RequeueAfter)
	w.expect("at the deadline, and the data plane has served all the while", "Unused")
}

func TestNobodyIsPutToSleepWhileNobodyCanUseIt(t *testing.T) {
	w := newLife(t, map[string]any{"sleepAfterUnused": "1h"})
	w.settle()
	later := noon.Add(5 * time.Hour)
	w.now = func() time.Time { return later } // without a heartbeat
	w.expect("while the data plane is away", "")
	w.heartbeat(0)
	w.expect("when it is back", "")
	w.pass(2 * time.Hour)
	w.expect("unused since", "Unused")
	muchLater := later.Add(100 * time.Hour)
	w.now = func() time.Time { return muchLater }
	w.expect("asleep, and the data plane is away again", "Unused")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: placement.DataPlaneLease}}
	if err := w.runtime.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	w.expect("asleep, and there is no heartbeat at all", "Unused")
}

// behind answers with Leases that the cache has not seen.
type behind struct {
	client.Reader
	used time.Time
}

func (b behind) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := b.Reader.Get(ctx, key, obj, opts...)
	if lease, ok := obj.(*coordinationv1.Lease); ok && key.Name == placement.ActivityLease {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: b.used}
	}
	return err
}

func TestACacheThatIsBehindPutsNobodyToSleepAndDeletesNobody(t *testing.T) {
	for name, lifecycle := range map[string]map[string]any{
		"not put to sleep": {"sleepAfterUnused": "1h"},
		"not deleted":      {"deleteAfterUnused": "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLife(t, lifecycle)
			w.settle()
			w.pass(2 * time.Hour)
			w.liveRuntime = behind{w.runtime, w.now().Add(-time.Minute)}
			w.expect("used a minute ago, which the cache does not know", "")
			if w.inKCP.GetDeletionTimestamp() != nil {
				t.Error("it is deleted")
			}
		})
	}
}

// silent is a runtime cluster that does not answer questions about Leases.
type silent struct{ client.Reader }

func (s silent) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*coordinationv1.Lease); ok {
		return errors.New("no answer")
	}
	return s.Reader.Get(ctx, key, obj, opts...)
}

func TestWhoseLastUseCannotBeLearntIsLeftAlone(t *testing.T) {
	for name, lifecycle := range map[string]map[string]any{
		"not put to sleep":      {"sleepAfterUnused": "1h"},
		"not deleted":           {"deleteAfterUnused": "1h"},
		"not deleted on expiry": {"shutdownTime": "2026-03-01T13:00:00Z", "shutdownPolicy": "Delete"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLife(t, lifecycle)
			w.settle()
			w.pass(2 * time.Hour)
			w.liveRuntime = silent{w.runtime}
			if err := w.reconcile(); err == nil {
				t.Error("it is not tried again")
			}
			if cause := w.cause(); cause != "" || w.inKCP.GetDeletionTimestamp() != nil {
				t.Errorf("suspended because of %q, deleted at %v", cause, w.inKCP.GetDeletionTimestamp())
			}
		})
	}
}

func TestAChangeOfTheSpecIsUse(t *testing.T) {
	for name, tc := range map[string]struct {
		lifecycle map[string]any
		change    []any
		before    string
		after     string
	}{
		"a suspended instance that is resumed does not fall asleep at once": {
			map[string]any{"sleepAfterUnused": "1h"}, []any{false, "suspended"}, "ByUser", "",
		},
		"an expired one that is renewed does not fall asleep at once": {
			map[string]any{"sleepAfterUnused": "1h", "shutdownTime": "2026-03-01T13:00:00Z"},
			[]any{"2027-03-01T13:00:00Z", "lifecycle", "shutdownTime"},
			"Expired", "",
		},
		"one that sleeps wakes": {
			map[string]any{"sleepAfterUnused": "1h"}, []any{"blue", "color"}, "Unused", "",
		},
		"one that gets a time to sleep has it ahead": {
			map[string]any{}, []any{"1h", "lifecycle", "sleepAfterUnused"}, "", "",
		},
		"one that gets a time to go has it ahead": {
			map[string]any{}, []any{"1h", "lifecycle", "deleteAfterUnused"}, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLife(t, tc.lifecycle)
			if tc.before == "ByUser" {
				w.change(true, "suspended")
			}
			w.settle()
			w.pass(100 * time.Hour)
			w.expect("before", tc.before)
			w.change(tc.change...)
			w.expect("after", tc.after)
			if w.inKCP.GetDeletionTimestamp() != nil {
				t.Error("it is deleted")
			}
			if got := w.lease().Spec.RenewTime.Time; !got.Equal(w.now()) {
				t.Errorf("last used at %v, want %v", got, w.now())
			}
		})
	}
}

func TestTheLeaseIsRepaired(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*coordinationv1.Lease)
		used time.Duration // from two hours after noon
	}{
		"a label that is lost comes back and is no use": {func(l *coordinationv1.Lease) { l.Labels = nil }, -2 * time.Hour},
		"a time that is lost is now":                    {func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }, 0},
		"a time that lies hours ahead is now": {
			func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: noon.Add(9 * time.Hour)} }, 0,
		},
		"a time that lies a little ahead is left": {
			func(l *coordinationv1.Lease) {
				l.Spec.RenewTime = &metav1.MicroTime{Time: noon.Add(2*time.Hour + time.Minute)}
			}, time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLife(t, nil)
			w.settle()
			w.pass(2 * time.Hour)
			lease := w.lease()
			tc.edit(lease)
			if err := w.runtime.Update(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
			w.settle()
			if got := w.lease(); !got.Spec.RenewTime.Equal(&metav1.MicroTime{Time: w.now().Add(tc.used)}) || got.Labels[placement.LabelInstanceUID] != fixture.UID {
				t.Errorf("the Lease is %+v", got)
			}
		})
	}
	t.Run("a Lease that is lost is made anew and says now", func(t *testing.T) {
		w := newLife(t, nil)
		w.settle()
		w.pass(2 * time.Hour)
		if err := w.runtime.Delete(t.Context(), w.lease()); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if got := w.lease().Spec.RenewTime.Time; !got.Equal(w.now()) {
			t.Errorf("it says %v", got)
		}
	})
}

func TestAnInstanceIsDeletedAtItsEndAndNotWhenItChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		lifecycle map[string]any
		meanwhile func(*world) // what kcp has and the cache has not
		removed   bool
	}{
		"unused for too long":   {lifecycle: map[string]any{"deleteAfterUnused": "1h"}, removed: true},
		"expired":               {lifecycle: map[string]any{"shutdownTime": "2026-03-01T13:00:00Z", "shutdownPolicy": "Delete"}, removed: true},
		"asleep before":         {lifecycle: map[string]any{"sleepAfterUnused": "30m", "deleteAfterUnused": "1h"}, removed: true},
		"retained for good":     {lifecycle: map[string]any{"shutdownTime": "2026-03-01T13:00:00Z", "deleteAfterUnused": "1h"}},
		"renewed a moment ago":  {lifecycle: map[string]any{"deleteAfterUnused": "1h"}, meanwhile: func(w *world) { w.change("24h", "lifecycle", "deleteAfterUnused") }},
		"made anew meanwhile":   {lifecycle: map[string]any{"deleteAfterUnused": "1h"}, meanwhile: func(w *world) { w.inKCP.SetUID("another") }},
		"deleted by its tenant": {lifecycle: map[string]any{"deleteAfterUnused": "1h"}, meanwhile: func(w *world) { w.inKCP.SetDeletionTimestamp(&metav1.Time{Time: noon}) }},
		"gone meanwhile":        {lifecycle: map[string]any{"deleteAfterUnused": "1h"}, meanwhile: func(w *world) { w.inKCP = nil }},
		"kcp answers that nothing may be read there": {
			lifecycle: map[string]any{"deleteAfterUnused": "1h"},
			meanwhile: func(w *world) { w.liveErr = apierrors.NewForbidden(fixture.Thing.GVR().GroupResource(), "web", nil) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLife(t, tc.lifecycle)
			w.settle()
			w.pass(3 * time.Hour)
			if tc.meanwhile != nil {
				tc.meanwhile(w)
			}
			w.patches = nil
			err := w.reconcile()
			if forbidden := apierrors.IsForbidden(err); err != nil && !forbidden {
				t.Fatal(err)
			}
			if got := slices.Contains(w.patches, "removed"); got != tc.removed {
				t.Errorf("removed: %v, want %v", got, tc.removed)
			}
		})
	}
}

func TestADeletionThatKcpRefusesBecauseOfAChangeIsLeft(t *testing.T) {
	w := newLife(t, map[string]any{"deleteAfterUnused": "1h"})
	w.settle()
	read := w.inKCP.DeepCopy()
	w.change("24h", "lifecycle", "deleteAfterUnused")
	w.inKCP.SetResourceVersion("99")
	if err := ignoreGone(w.Remove(t.Context(), testRequest, read)); !errors.Is(err, errChanged) {
		t.Error(err)
	}
	if w.inKCP.GetDeletionTimestamp() != nil {
		t.Error("it was deleted")
	}
}

func TestAnUnusedInstanceWithMinReplicasShrinksAndGrows(t *testing.T) {
	w := newLife(t, map[string]any{"sleepAfterUnused": "1h", "minReplicas": int64(2)})
	w.inKCP.Object["spec"].(map[string]any)["replicas"] = int64(5)
	count := func(what string, want int64) {
		t.Helper()
		w.expect(what, "")
		if got, _ := lifecycle.Replicas(w.kroInstance()); got != want {
			t.Errorf("%s: %d replicas, want %d", what, got, want)
		}
	}
	count("in use", 5)
	w.pass(2 * time.Hour)
	count("unused", 2)
	away := w.now().Add(10 * time.Hour)
	w.now = func() time.Time { return away }
	count("unused, and the data plane is away", 2)
	w.use(w.now())
	count("used", 5)
	w.change(int64(1), "replicas")
	w.pass(2 * time.Hour)
	count("with fewer replicas than are to be kept", 1)
}

func TestTheTenantSeesTheLastUseAtMostOnceAMinute(t *testing.T) {
	w := newLife(t, nil)
	seen := func() string {
		w.settle()
		got, _, _ := unstructured.NestedString(w.inKCP.Object, "status", "activity", "lastActiveTime")
		return got
	}
	var got []string
	for _, d := range []time.Duration{0, 30 * time.Second, 59 * time.Second, 60 * time.Second, 90 * time.Second, 2 * time.Minute} {
		w.now = func() time.Time { return noon.Add(d) }
		w.settle()
		w.use(w.now())
		got = append(got, seen())
	}
	want := []string{
		"2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z",
		"2026-03-01T12:01:00Z", "2026-03-01T12:01:00Z", "2026-03-01T12:02:00Z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("last active (-want +got):\n%s", diff)
	}
}

func TestTheOperatorSaysHowOftenUseIsWritten(t *testing.T) {
	s := fixture.NewScope()
	if got := s.ActivityInterval(); got != time.Minute {
		t.Errorf("by default it is %v", got)
	}
	s.Infrastructure().Limits = &sandbarv1alpha1.Limits{DataPlaneLimits: sandbarv1alpha1.DataPlaneLimits{ActivityIntervalSeconds: 5}}
	if got := s.ActivityInterval(); got != 5*time.Second {
		t.Errorf("it is %v", got)
	}
}

// A status with a use that the Lease does not have would promise a tenant time that the lifecycle does not
// give.
func TestAUseThatCannotBeWrittenIsNotTold(t *testing.T) {
	w := newLife(t, map[string]any{"sleepAfterUnused": "1h"})
	w.settle()
	w.pass(10 * time.Minute)
	w.change("2h", "lifecycle", "sleepAfterUnused")
	unstructured.RemoveNestedField(w.inKCP.Object, "status") // one that is placed keeps its status
	broken := errors.New("connection refused")
	w.failWrites = func(verb string, obj runtime.Object) error {
		if _, isLease := obj.(*coordinationv1.Lease); isLease && verb == "patch" {
			return broken
		}
		return nil
	}
	if err := w.reconcile(); !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil {
		t.Fatal(err)
	}
	if status.Activity == nil || !status.Activity.LastActiveTime.Time.Equal(noon) {
		t.Errorf("the activity is %v, want %v", status.Activity, noon)
	}
}
