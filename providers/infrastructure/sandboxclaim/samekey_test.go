// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxclaim

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/idempotency"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// keyed gives the claim of the world a key.
func (w *world) keyed(key string) *world {
	obj := w.claims.objects["batch"]
	obj.SetAnnotations(map[string]string{placement.AnnotationIdempotencyKey: key})
	return w
}

// again creates a claim like the first one, later and with changes.
func (w *world) again(name string, later time.Duration, change func(*unstructured.Unstructured)) {
	w.t.Helper()
	obj := w.claims.objects["batch"].DeepCopy()
	obj.SetName(name)
	obj.SetUID(types.UID("uid-" + name))
	obj.SetFinalizers(nil)
	obj.SetLabels(nil)
	obj.SetCreationTimestamp(metav1.NewTime(began.Add(later)))
	delete(obj.Object, "status")
	if change != nil {
		change(obj)
	}
	w.claims.put(obj)
}

// lookAt looks at claims, and those that are woken, until nothing is written any more, and returns when the last one is
// looked at again.
func (w *world) lookAt(names ...string) (again time.Duration) {
	w.t.Helper()
	for range 20 {
		before, woken := len(w.claims.writes)+len(w.boxes.writes), len(w.woken)
		for _, name := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(names), w.woken...)))) {
			result, err := w.r.Reconcile(w.t.Context(), keyFor(name))
			if err != nil {
				w.t.Fatal(err)
			}
			if name == names[len(names)-1] {
				again = result.RequeueAfter
			}
		}
		if len(w.claims.writes)+len(w.boxes.writes) == before && len(w.woken) == woken {
			return again
		}
	}
	w.t.Fatalf("it does not come to rest: %v, %v", w.claims.writes, w.boxes.writes)
	return 0
}

func specOf(obj *unstructured.Unstructured) map[string]any {
	spec, _ := obj.Object["spec"].(map[string]any)
	return spec
}

func TestAClaimWithTheSameKeyHasTheSameSandboxes(t *testing.T) {
	w := newWorld(t, 2, nil).keyed("k")
	w.lookAt("batch")
	w.again("retried", time.Hour, func(obj *unstructured.Unstructured) { specOf(obj)["onDelete"] = "Release" }) // which may change
	w.lookAt("batch", "retried")
	w.wantBoxes("the second claim makes none", "batch-0", "batch-1")
	status := w.statusOf("retried")
	if status.SameAs == nil || *status.SameAs != (sandbarv1alpha1.SandboxClaimReference{Name: "batch", UID: "uid-batch"}) || status.Phase != sandbarv1alpha1.ClaimClaiming {
		t.Fatalf("%+v", status)
	}
	w.is("batch-0", sandbarv1alpha1.InstanceReady)
	w.is("batch-1", sandbarv1alpha1.InstanceReady)
	w.woken = nil
	w.look() // at the first one alone
	if !slices.Contains(w.woken, "retried") {
		t.Fatalf("woken are %v", w.woken)
	}
	w.lookAt("batch")
	status = w.statusOf("retried")
	if diff := cmp.Diff(w.status().Sandboxes, status.Sandboxes); diff != "" || status.ReadyReplicas != 2 || status.Phase != sandbarv1alpha1.ClaimBound || status.CompletionTime == nil {
		t.Errorf("%+v (-first +second):\n%s", status, diff)
	}
	if c := meta.FindStatusCondition(status.Conditions, "Claimed"); c == nil || c.Status != "True" || !strings.Contains(c.Message, "those of SandboxClaim batch") {
		t.Errorf("Claimed is %+v", c)
	}
	t.Run("which stay when it is deleted", func(t *testing.T) {
		obj := w.claims.objects["retried"].DeepCopy()
		obj.SetDeletionTimestamp(new(metav1.Now()))
		w.claims.put(obj)
		w.lookAt("retried")
		if w.claims.objects["retried"] != nil {
			t.Error("it is still there")
		}
		w.wantBoxes("they are the first one's", "batch-0", "batch-1")
	})
}

func TestAKeyIsForgottenAfterADayOrWithItsClaim(t *testing.T) {
	for name, test := range map[string]struct {
		later time.Duration
		first func(w *world)
		same  bool
	}{
		"a second before the day is over": {idempotency.Window - time.Second, nil, true},
		"after a day":                     {idempotency.Window, nil, false},
		"the first one is being deleted":  {time.Minute, func(w *world) { w.claims.objects["batch"].SetDeletionTimestamp(new(metav1.Now())) }, false},
		"another key": {time.Minute, func(w *world) {
			w.claims.objects["batch"].SetAnnotations(map[string]string{placement.AnnotationIdempotencyKey: "other"})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil).keyed("k")
			w.lookAt("batch")
			w.again("second", test.later, func(obj *unstructured.Unstructured) { w.now = obj.GetCreationTimestamp().Time })
			if test.first != nil {
				test.first(w)
			}
			w.lookAt("second")
			if same := w.statusOf("second").SameAs != nil; same != test.same {
				t.Errorf("the status is %+v", w.statusOf("second"))
			}
			if made := w.boxes.objects["second"] != nil; made == test.same {
				t.Errorf("its own Sandbox is there: %v", made)
			}
		})
	}
}

func TestAClaimWithAKeyThatWasUsedForSomethingElseIsRefused(t *testing.T) {
	for field, value := range map[string]any{
		"templateRef": map[string]any{"kind": "SandboxTemplate", "name": "other"}, "replicas": int64(3), "allOrNothing": true, "prewarm": "None",
		"claimTimeout": "2m", "sandboxMetadata": map[string]any{"labels": map[string]any{"a": "b"}},
	} {
		t.Run(field, func(t *testing.T) {
			w := newWorld(t, 1, nil).keyed("k")
			w.lookAt("batch")
			w.again("second", time.Minute, func(obj *unstructured.Unstructured) { specOf(obj)[field] = value })
			w.now = began.Add(time.Minute)
			if again := w.lookAt("second"); again != time.Hour {
				t.Errorf("it is looked at again in %v", again)
			}
			w.wantBoxes("it makes none", "batch")
			status := w.statusOf("second")
			c := meta.FindStatusCondition(status.Conditions, "Claimed")
			if status.Phase != sandbarv1alpha1.ClaimFailed || c == nil || c.Reason != reasonKeyReused || !strings.Contains(c.Message, "SandboxClaim batch was created at 2026-01-02T03:04:05Z") {
				t.Errorf("%+v", status)
			}
			w.now = w.now.Add(time.Hour)
			w.lookAt("second")
			if w.claims.objects["second"] != nil {
				t.Error("it does not go by itself")
			}
		})
	}
}

func TestAKeyThatIsNoneIsRefused(t *testing.T) {
	w := newWorld(t, 1, nil).keyed("")
	w.lookAt("batch")
	w.wantBoxes("it makes none")
	w.want(sandbarv1alpha1.ClaimFailed, map[string]string{"Claimed": "False IdempotencyKeyInvalid: the annotation sandbar.dev/idempotency-key: an idempotency key has 1 to 255"})
}

func TestAClaimFollowsTheOneThatWasFirstToItsEnd(t *testing.T) {
	w := newWorld(t, 1, nil).keyed("k")
	w.lookAt("batch")
	w.again("second", time.Second, nil)
	w.lookAt("batch", "second")
	delete(w.claims.objects, "batch")
	w.woken = nil
	w.lookAt("batch")
	status := w.statusOf("second")
	c := meta.FindStatusCondition(status.Conditions, "Claimed")
	if status.Phase != sandbarv1alpha1.ClaimFailed || len(status.Sandboxes) > 0 || c == nil || c.Reason != reasonGone {
		t.Errorf("%+v", status)
	}
	t.Run("also if another claim has its name", func(t *testing.T) {
		other := w.claims.objects["second"].DeepCopy()
		other.SetName("batch")
		other.SetUID("uid-another")
		w.claims.put(other)
		w.lookAt("second")
		if status := w.statusOf("second"); len(status.Sandboxes) > 0 {
			t.Errorf("%+v", status)
		}
	})
}

// Nothing tells which of two claims of one second kcp has taken first.
func TestOfSeveralClaimsThatAreNotDecidedTheOldestIsDecidedFirst(t *testing.T) {
	w := newWorld(t, 1, nil).keyed("k")
	w.again("aged", 0, nil) // its UID comes before that of batch
	for _, name := range []string{"batch", "aged"} {
		if _, err := w.r.Reconcile(t.Context(), keyFor(name)); err != nil { // the finalizer and the label
			t.Fatal(err)
		}
	}
	result, err := w.r.Reconcile(t.Context(), keyFor("batch"))
	if err != nil || result.RequeueAfter != changedAgain || len(w.boxes.writes) > 0 {
		t.Fatalf("%+v, %v, %v", result, err, w.boxes.writes)
	}
	w.lookAt("aged", "batch")
	w.wantBoxes("one of them makes a Sandbox", "aged")
	if status := w.status(); status.SameAs == nil || status.SameAs.Name != "aged" {
		t.Errorf("%+v", status)
	}
}

// A claim whose status kcp does not take, because the object is as large as an object may be, is never decided. A
// thousand others of the workspace with its key would ask for each other ten times a second.
func TestAClaimThatWaitsForLongAsksEverMoreRarely(t *testing.T) {
	w := newWorld(t, 1, nil).keyed("k")
	w.again("aged", 0, func(obj *unstructured.Unstructured) { // it has the label, and its finalizer cannot be written
		obj.SetLabels(map[string]string{placement.LabelIdempotencyKey: idempotency.Hash("k")})
	})
	var last time.Duration
	for _, age := range []time.Duration{0, time.Minute, time.Hour} {
		w.now = began.Add(age)
		for range 2 { // the finalizer first
			result, err := w.r.Reconcile(t.Context(), keyFor("batch"))
			if err != nil {
				t.Fatal(err)
			}
			last = result.RequeueAfter
		}
		if most := changedAgain + age/4; last < changedAgain || last < age/10 || last > most {
			t.Errorf("after %s it asks again in %s", age, last)
		}
	}
	if len(w.boxes.writes) > 0 || w.status().Phase != "" {
		t.Errorf("%v, %+v", w.boxes.writes, w.status())
	}
}

// Workers look at claims side by side, in any order.
func TestClaimsWithOneKeyThatComeAtOnceHaveOneSetOfSandboxes(t *testing.T) {
	w := newWorld(t, 1, nil).keyed("k")
	names := []string{"batch"}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		w.again(name, 0, nil)
		names = append(names, name)
	}
	w.r.wake = func(export.Key) {}
	var workers sync.WaitGroup
	for _, name := range names {
		workers.Go(func() {
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); { // a claim that is decided ends it sooner
				obj, err := w.claims.Live(context.Background(), keyFor(name))
				if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); err != nil || phase != "" {
					return
				}
				_, _ = w.r.Reconcile(context.Background(), keyFor(name))
			}
		})
	}
	workers.Wait()
	if got := w.boxNames(); len(got) != 1 {
		t.Errorf("the Sandboxes are %v", got)
	}
	for _, name := range names {
		if w.statusOf(name).Phase == "" {
			t.Errorf("%s is not decided", name)
		}
	}
}
