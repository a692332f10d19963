// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
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
			if got := fixture.ConditionOf(t, w.inKCP, "Placed"); got.Reason != outcome.ReasonRuntimeError {
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
		"a kind that is not served by all": apierrors.NewNotFound(fixture.Thing.GVR().GroupResource(), "web"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.failWrites = func(_ string, obj runtime.Object) error {
				if obj.GetObjectKind().GroupVersionKind().Kind == fixture.Thing.GVK.Kind {
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

func TestAnObjectThatTheWatchGoesOnShowingIsNotPlacedWhenItIsGone(t *testing.T) {
	w := newWorld(t)
	w.capacity.follow(fixture.Thing.Template, func(string) []candidate { return []candidate{{owner: fixture.Owner, req: testRequest}} })
	w.inKCP = nil
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(w.writes) != 0 {
		t.Errorf("wrote %v for an object that is gone", w.writes)
	}
	if !w.capacity.ghosts[fixture.Owner] {
		t.Error("it is still one of those that may want a place")
	}
}

// While kcp starts it answers 403 and 404 to questions that it cannot answer yet; no event follows when
// it can.
func TestAnAnswerThatSaysNothingOfTheObjectIsAskedForAgain(t *testing.T) {
	for name, answer := range map[string]error{
		"kcp refuses to say":        apierrors.NewForbidden(fixture.Thing.GVR().GroupResource(), "web", nil),
		"kcp does not know the API": notServed(),
		"no shard can be asked":     export.ErrNoEndpoint,
		"kcp is away":               errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			w.liveErr = answer
			if err := w.reconcile(); !errors.Is(err, answer) {
				t.Errorf("error %v", err)
			}
			if len(w.writes)+len(w.patches) != 0 {
				t.Errorf("wrote %v %v", w.writes, w.patches)
			}
		})
	}
}

// notServed is what client-go makes of an answer that comes from no API: the path leads nowhere.
func notServed() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", fixture.Thing.GVR().GroupResource(), "web", "404 page not found", 0, true)
}

func TestNothingIsAskedOfKcpForWhatIsGoneAndHasNoPlacement(t *testing.T) {
	w := newWorld(t)
	w.unseen = true
	if err := w.reconcile(); err != nil || w.reads != 0 {
		t.Errorf("%d reads, error %v", w.reads, err)
	}
}

func TestASecretOfTheProvidersOutlivesEverything(t *testing.T) {
	for _, g := range []place.Generated{{Secret: placement.ControlSecret, Key: placement.ControlTokenKey}, place.Password} {
		t.Run(g.Secret, func(t *testing.T) { outlives(t, g) })
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

func outlives(t *testing.T, g place.Generated) {
	w := newWorld(t)
	w.settings.WantsPassword = true
	w.settle()
	key := types.NamespacedName{Namespace: w.id().Namespace(), Name: g.Secret}
	secret := &corev1.Secret{}
	if err := w.runtime.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	value := string(secret.Data[g.Key])
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
	if string(secret.Data[g.Key]) != value {
		t.Error("the value changed")
	}
	if secret.Labels[placement.LabelInstanceUID] != fixture.UID {
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
		"not when only the watch lost it":          {change: func(*world) {}},
		"not when kcp refuses to say":              {change: func(w *world) { w.liveErr = apierrors.NewForbidden(fixture.Thing.GVR().GroupResource(), "web", nil) }},
		"not when kcp does not serve the kind":     {change: func(w *world) { w.liveErr = notServed() }},
		"not when no endpoint is there":            {change: func(w *world) { w.liveErr = export.ErrNoEndpoint }},
		"not when the placement is of another one": {change: func(w *world) { w.inKCP = nil; w.settings.Provider = "another" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			w.unseen = true
			test.change(w)
			if err := w.reconcile(); err != nil && w.liveErr == nil {
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
	w.inKCP = fixture.NewInstance()
	w.inKCP.SetUID("young")
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	young := placement.ID{Origin: fixture.Cluster, UID: "young"}
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
	pruning, err := w.reconciler().prune(t.Context(), fixture.NewScope())
	if err != nil || !pruning {
		t.Fatalf("pruning: %v %v", pruning, err)
	}
	r := w.reconciler()
	r.now = func() time.Time { return time.Now().Add(pruneGrace + time.Second) }
	if pruning, err = r.prune(t.Context(), fixture.NewScope()); err != nil || pruning {
		t.Errorf("after the grace: pruning %v %v", pruning, err)
	}
}

func TestAHangingDeletionTellsWhatIsLeft(t *testing.T) {
	ns := place.BuildNamespace(fixture.NewScope())
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
	if got := fixture.ConditionOf(t, w.inKCP, "Ready"); got.Message != want || got.Reason != outcome.ReasonDeleting {
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
	w.settings.Infrastructure = nil
	if err := w.reconcile(); err == nil || !errors.Is(err, outcome.ErrNotConfigured) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(w.writes) != 0 {
		t.Errorf("wrote %v", w.writes)
	}
	if got := fixture.ConditionOf(t, w.inKCP, "Placed"); got.Reason != outcome.ReasonNotConfigured {
		t.Errorf("Placed has reason %q", got.Reason)
	}
}

func TestAnOutageOfTheRuntimeClusterDoesNotCallARunningInstanceUnready(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration()))
	w.settle()
	if got := fixture.ConditionOf(t, w.inKCP, "Ready"); got.Status != metav1.ConditionTrue {
		t.Fatalf("Ready is %s: %s", got.Status, got.Message)
	}
	w.settings.Infrastructure.Quota.Hard = corev1.ResourceList{corev1.ResourcePods: *newQuantity("3")}
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
	w.settings.Infrastructure.Isolation.Egress.DeniedCIDRs = []string{"10.0.0/8"}
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(w.writes) != 0 {
		t.Errorf("wrote %v", w.writes)
	}
	if got := fixture.ConditionOf(t, w.inKCP, "Placed"); got.Reason != outcome.ReasonMisconfigured {
		t.Errorf("Placed says %q, %q", got.Reason, got.Message)
	}
}

// Somebody writes a tenant's object between the look at it and our own write, and changes nothing that
// matters: no event leads to another look. A finalizer stayed for ever, and so did an instance without one.
// blind is a runtime cluster that does not list pods.
type blind struct{ client.Client }

func (b blind) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*corev1.PodList); ok {
		return apierrors.NewServiceUnavailable("not now")
	}
	return b.Client.List(ctx, list, opts...)
}

// A refused spec needs no retry; what else failed in the same reconcile does.
func TestWhatARetryMendsIsRetriedBesideARefusedSpec(t *testing.T) {
	w := newWorld(t)
	invalid := func(kind string) func(string, runtime.Object) error {
		return func(_ string, obj runtime.Object) error {
			if obj.GetObjectKind().GroupVersionKind().Kind == kind {
				return apierrors.NewInvalid(fixture.Thing.GVK.GroupKind(), "web", nil)
			}
			return nil
		}
	}
	w.failWrites = invalid("Thing")
	if err := w.reconcile(); err != nil {
		t.Errorf("a refused spec is retried: %v", err)
	}
	served := w.runtime
	w.runtime = blind{served}
	if err := w.reconcile(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the pods could not be listed, and the error is %v", err)
	}
	w = newWorld(t)
	w.failWrites = invalid("ResourceQuota")
	if err := w.reconcile(); !apierrors.IsInvalid(err) {
		t.Errorf("the status says that the placement is tried again, and the error is %v", err)
	}
}

func TestAWriteThatFailsIsRetriedAlthoughThePodIsRefused(t *testing.T) {
	w := newPodWorld(t)
	w.settle()
	w.writeSource(map[string]any{"templateRef": map[string]any{"name": "nosuch"}})
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
	w.failWrites = func(_ string, obj runtime.Object) error {
		if obj.GetObjectKind().GroupVersionKind().Kind == "Thing" {
			return apierrors.NewServiceUnavailable("not now")
		}
		return nil
	}
	if err := w.reconcile(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the instance is not suspended yet, and the error is %v", err)
	}
}

func TestAWriteOfSomebodyElseIsLookedAtAgain(t *testing.T) {
	w := newWorld(t)
	written := func() { w.inKCP.SetResourceVersion("98") }
	again := func(what string) {
		t.Helper()
		w.meanwhile = written
		result, err := w.reconciler().Reconcile(t.Context(), testRequest)
		if err != nil || result.RequeueAfter != changedAgain {
			t.Errorf("%s: again in %v, error %v", what, result.RequeueAfter, err)
		}
	}
	again("the first finalizer")
	w.settle()
	if len(w.inKCP.GetFinalizers()) == 0 {
		t.Error("it has no finalizer")
	}
	w.change("x", "color")
	w.inKCP.SetGeneration(2)
	again("a status")
	w.settle()
	bare := newWorld(t)
	bare.inKCP.SetFinalizers([]string{placement.Finalizer})
	bare.deleteInKCP()
	w, written = bare, func() { bare.inKCP.SetResourceVersion("98") }
	again("the last finalizer")
	if bare.step(t); bare.inKCP != nil {
		t.Error("it is still there")
	}
}

// deleteInKCP marks the instance as being deleted.
func (w *world) deleteInKCP() {
	now := metav1.Now()
	w.inKCP.SetDeletionTimestamp(&now)
}

// step reconciles once.
func (w *world) step(t *testing.T) {
	t.Helper()
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

func newQuantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}
