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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestANewInstanceIsPlacedInOneReconcileAndThenNothingIsWritten(t *testing.T) {
	w := newWorld(t)
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(w.writes)
	want := []string{
		"apply LimitRange", "apply Namespace", "apply NetworkPolicy", "apply NetworkPolicy",
		"apply ResourceQuota", "apply Thing", "create Lease", "create Secret",
	}
	if diff := cmp.Diff(want, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"main", "status"}, w.patches); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	if got := w.inKCP.GetFinalizers(); !slices.Contains(got, placement.Finalizer) {
		t.Errorf("finalizers are %v", got)
	}
	w.settle()
}

func TestTheFinalizerIsThereBeforeAnythingOnTheRuntimeCluster(t *testing.T) {
	w := newWorld(t)
	w.failWrites = func(string, runtime.Object) error {
		if !slices.Contains(w.inKCP.GetFinalizers(), placement.Finalizer) {
			t.Error("written before the finalizer")
		}
		return nil
	}
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
}

func TestTheKroInstanceIsMadeAfterItsIsolation(t *testing.T) {
	for _, kind := range []string{"Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "Secret"} {
		t.Run("not without the "+kind, func(t *testing.T) {
			w := newWorld(t)
			w.failWrites = func(_ string, obj runtime.Object) error {
				if obj.GetObjectKind().GroupVersionKind().Kind == kind {
					return errors.New("refused")
				}
				return nil
			}
			if err := w.reconcile(); err == nil {
				t.Fatal("the refusal is not retried")
			}
			if slices.Contains(w.writes, "apply Thing") {
				t.Error("the kro instance was made")
			}
			if got := conditionOf(t, w.inKCP, "Placed"); got.Reason != reasonRuntimeError {
				t.Errorf("Placed has reason %q", got.Reason)
			}
		})
	}
}

// What a tenant's object answers when it is gone or has changed is dropped, as its event follows.
// No event follows what the runtime cluster's quota and its discovery answer in passing.
func TestWhateverTheRuntimeClusterRefusesInPassingIsTriedAgain(t *testing.T) {
	quota := corev1.Resource("resourcequotas")
	for name, refused := range map[string]error{
		"a quota that just changed":        apierrors.NewConflict(quota, "sandbar", errors.New("the object has been modified")),
		"a kind that is not served by all": apierrors.NewNotFound(thing.gvr().GroupResource(), "web"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.failWrites = func(_ string, obj runtime.Object) error {
				if obj.GetObjectKind().GroupVersionKind().Kind == thing.gvk.Kind {
					return refused
				}
				return nil
			}
			if err := w.reconcile(); !errors.Is(err, refused) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestACachedObjectThatIsGoneIsNotPlaced(t *testing.T) {
	for name, gone := range map[string]func(*world){
		"gone from kcp": func(w *world) { w.inKCP = nil },
		"in a workspace that is gone": func(w *world) {
			w.liveErr = apierrors.NewForbidden(thing.gvr().GroupResource(), "web", nil)
		},
		"replaced under its name":    func(w *world) { w.inKCP.SetUID("another"); w.inKCP.SetResourceVersion("9") },
		"being deleted in the cache": func(w *world) { now := metav1.Now(); w.inKCP.SetDeletionTimestamp(&now) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.inCache.SetFinalizers([]string{placement.Finalizer})
			w.inKCP.SetFinalizers([]string{placement.Finalizer})
			gone(w)
			if err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if len(w.writes) != 0 {
				t.Errorf("wrote %v for an object that is gone", w.writes)
			}
		})
	}
}

func TestASecretOfTheProvidersOutlivesEverything(t *testing.T) {
	for _, g := range []generated{controlToken, password} {
		t.Run(g.secret, func(t *testing.T) { outlives(t, g) })
	}
}

func TestAPasswordIsMadeForGraphsThatUseItOnly(t *testing.T) {
	w := newWorld(t)
	w.settle()
	key := types.NamespacedName{Namespace: w.id().Namespace(), Name: placement.PasswordSecret}
	if err := w.runtime.Get(t.Context(), key, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("a password that nobody uses: %v", err)
	}
}

func outlives(t *testing.T, g generated) {
	w := newWorld(t)
	w.settings.wantsPassword = true
	w.settle()
	key := types.NamespacedName{Namespace: w.id().Namespace(), Name: g.secret}
	secret := &corev1.Secret{}
	if err := w.runtime.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	value := string(secret.Data[g.key])
	if value == "" {
		t.Fatal("there is none")
	}
	delete(secret.Labels, placement.LabelInstanceUID)
	if err := w.runtime.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if err := w.runtime.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	if string(secret.Data[g.key]) != value {
		t.Error("the value changed")
	}
	if secret.Labels[placement.LabelInstanceUID] != testUID {
		t.Error("the label is not back")
	}
}

func TestAFieldThatATenantRemovesLeavesTheKroInstance(t *testing.T) {
	w := newWorld(t)
	w.settle()
	unstructured.RemoveNestedField(w.inKCP.Object, "spec", "port")
	w.settle()
	if _, found, _ := unstructured.NestedInt64(w.kroInstance().Object, "spec", "port"); found {
		t.Error("the removed field is still there")
	}
}

func TestAPlacementWhoseInstanceVanishedIsRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*world)
		removed bool
	}{
		"when kcp says it is gone":                 {change: func(w *world) { w.inKCP = nil }, removed: true},
		"when its name is another's now":           {change: func(w *world) { w.inKCP.SetUID("another") }, removed: true},
		"not when only the cache lost it":          {change: func(*world) {}},
		"not when kcp refuses to say":              {change: func(w *world) { w.liveErr = apierrors.NewForbidden(thing.gvr().GroupResource(), "web", nil) }},
		"not when no endpoint is open":             {change: func(w *world) { w.liveErr = errNoEndpoint }},
		"not when the placement is of another one": {change: func(w *world) { w.inKCP = nil; w.settings.provider = "another" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			w.inCache = nil
			test.change(w)
			if err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			err := w.runtime.Get(t.Context(), types.NamespacedName{Name: w.id().Namespace()}, &corev1.Namespace{})
			if got := apierrors.IsNotFound(err); got != test.removed {
				t.Errorf("removed: %v, want %v (%v)", got, test.removed, err)
			}
		})
	}
}

func TestANameUsedAgainGetsAPlacementOfItsOwnAndTheFormerOneGoes(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.inKCP = newInstance()
	w.inKCP.SetUID("young")
	w.inCache = w.inKCP.DeepCopy()
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	young := placement.ID{Cluster: testCluster, UID: "young"}
	if err := w.runtime.Get(t.Context(), types.NamespacedName{Name: young.Namespace()}, &corev1.Namespace{}); err != nil {
		t.Errorf("the new placement: %v", err)
	}
	err := w.runtime.Get(t.Context(), types.NamespacedName{Name: w.id().Namespace()}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the former placement is still there: %v", err)
	}
}

func TestADeletionGoesStepByStepToItsEnd(t *testing.T) {
	w := newWorld(t)
	w.settle()
	instance := w.kroInstance()
	instance.SetFinalizers([]string{"kro.run/finalizer"})
	mustUpdate(t, w.runtime, instance)
	w.deleteInKCP()

	w.writes = nil
	w.step(t)
	if diff := cmp.Diff([]string{"delete Thing"}, w.writes); diff != "" {
		t.Errorf("first the kro instance (-want +got):\n%s", diff)
	}
	if phase, _, _ := unstructured.NestedString(w.inKCP.Object, "status", "phase"); phase != "Deleting" {
		t.Errorf("phase is %q", phase)
	}
	w.writes = nil
	w.step(t)
	if len(w.writes) != 0 {
		t.Errorf("wrote %v while kro prunes", w.writes)
	}

	instance = w.kroInstance()
	instance.SetFinalizers(nil)
	mustUpdate(t, w.runtime, instance)
	w.writes = nil
	w.step(t)
	if diff := cmp.Diff([]string{"delete Namespace"}, w.writes); diff != "" {
		t.Errorf("then the namespace (-want +got):\n%s", diff)
	}
	if w.inKCP == nil {
		t.Fatal("the finalizer went before the namespace was seen to be gone")
	}
	w.step(t)
	if w.inKCP != nil {
		t.Errorf("the instance is still there with %v", w.inKCP.GetFinalizers())
	}
}

func TestKroThatDoesNotPruneIsNotWaitedForForEver(t *testing.T) {
	w := newWorld(t)
	w.settle()
	instance := w.kroInstance()
	instance.SetFinalizers([]string{"kro.run/finalizer"})
	mustUpdate(t, w.runtime, instance)
	if err := w.runtime.Delete(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	w.deleteInKCP()
	pruning, err := w.reconciler().prune(t.Context(), newScope())
	if err != nil || !pruning {
		t.Fatalf("pruning: %v %v", pruning, err)
	}
	r := w.reconciler()
	r.now = func() time.Time { return time.Now().Add(pruneGrace + time.Second) }
	if pruning, err = r.prune(t.Context(), newScope()); err != nil || pruning {
		t.Errorf("after the grace: pruning %v %v", pruning, err)
	}
}

func TestAHangingDeletionTellsWhatIsLeft(t *testing.T) {
	ns := buildNamespace(newScope())
	ns.Finalizers = []string{"example.com/hangs"}
	w := newWorld(t, ns)
	if err := w.runtime.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if err := w.runtime.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil {
		t.Fatal(err)
	}
	ns.Status.Conditions = []corev1.NamespaceCondition{{
		Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue,
		Message: "Some content in the namespace has finalizers remaining: example.com/volume in 1 resource instances",
	}}
	if err := w.runtime.Status().Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	w.inKCP.SetFinalizers([]string{placement.Finalizer})
	w.deleteInKCP()
	w.step(t)
	want := "waiting for the placement to be removed: " + ns.Status.Conditions[0].Message
	if got := conditionOf(t, w.inKCP, "Ready"); got.Message != want || got.Reason != reasonDeleting {
		t.Errorf("Ready says %q, %q", got.Reason, got.Message)
	}
}

func TestAnInstanceThatIsBeingDeletedAndNeverHadAPlacementIsLetGo(t *testing.T) {
	w := newWorld(t)
	w.inKCP.SetFinalizers([]string{placement.Finalizer})
	w.deleteInKCP()
	w.step(t)
	if w.inKCP != nil || len(w.writes) != 0 {
		t.Errorf("still there: %v; wrote %v", w.inKCP != nil, w.writes)
	}
}

func TestAnotherControllersFinalizerIsNotOurConcern(t *testing.T) {
	w := newWorld(t)
	w.inKCP.SetFinalizers([]string{"example.com/other"})
	w.deleteInKCP()
	w.step(t)
	if len(w.writes)+len(w.patches) != 0 {
		t.Errorf("wrote %v %v", w.writes, w.patches)
	}
}

func TestWithoutAnInfrastructureProviderNothingIsPlacedAndTheStatusSaysWhy(t *testing.T) {
	w := newWorld(t)
	w.settings.infrastructure = nil
	if err := w.reconcile(); err == nil || !errors.Is(err, errNotConfigured) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(w.writes) != 0 {
		t.Errorf("wrote %v", w.writes)
	}
	if got := conditionOf(t, w.inKCP, "Placed"); got.Reason != reasonNotConfigured {
		t.Errorf("Placed has reason %q", got.Reason)
	}
}

func TestAnOutageOfTheRuntimeClusterDoesNotCallARunningInstanceUnready(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.kroSays(kroReady(w.kroInstance().GetGeneration()))
	w.settle()
	if got := conditionOf(t, w.inKCP, "Ready"); got.Status != metav1.ConditionTrue {
		t.Fatalf("Ready is %s: %s", got.Status, got.Message)
	}
	w.settings.infrastructure.Quota.Hard = corev1.ResourceList{corev1.ResourcePods: *newQuantity("3")}
	w.failWrites = func(string, runtime.Object) error { return errors.New("connection refused") }
	w.patches = nil
	if err := w.reconcile(); err == nil {
		t.Error("the outage is not retried")
	}
	if len(w.patches) != 0 {
		t.Errorf("patched %v during the outage", w.patches)
	}
}

func TestAMisconfiguredIsolationClosesAndIsNotRetried(t *testing.T) {
	w := newWorld(t)
	w.settings.infrastructure.Isolation.Egress.DeniedCIDRs = []string{"10.0.0/8"}
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(w.writes) != 0 {
		t.Errorf("wrote %v", w.writes)
	}
	if got := conditionOf(t, w.inKCP, "Placed"); got.Reason != reasonMisconfigured {
		t.Errorf("Placed says %q, %q", got.Reason, got.Message)
	}
}

// deleteInKCP marks the instance as being deleted.
func (w *world) deleteInKCP() {
	now := metav1.Now()
	w.inKCP.SetDeletionTimestamp(&now)
}

// step reconciles once with an up-to-date cache.
func (w *world) step(t *testing.T) {
	t.Helper()
	w.inCache = w.inKCP.DeepCopy()
	w.patches = nil
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
}

func mustUpdate(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	if err := c.Update(context.Background(), obj); err != nil {
		t.Fatal(err)
	}
}
