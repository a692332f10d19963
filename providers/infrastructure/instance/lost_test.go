// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// readyWorld has an instance that is Ready.
func readyWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.settle()
	w.becomesReady()
	return w
}

func (w *world) becomesReady() {
	w.t.Helper()
	w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration()))
	w.settle()
	if got := fixture.ConditionOf(w.t, w.inKCP, "Ready"); got.Status != metav1.ConditionTrue {
		w.t.Fatalf("Ready says %s: %q", got.Reason, got.Message)
	}
}

func (w *world) namespace() *corev1.Namespace {
	w.t.Helper()
	ns := &corev1.Namespace{}
	if err := w.runtime.Get(w.t.Context(), types.NamespacedName{Name: w.id().Namespace()}, ns); err != nil {
		w.t.Fatal(err)
	}
	return ns
}

// deleted deletes an object of the runtime cluster as a person would; held says that its end takes a while.
func (w *world) deleted(obj client.Object, held bool) {
	w.t.Helper()
	if held {
		obj.SetFinalizers([]string{"example.com/takes-a-while"})
		mustUpdate(w.t, w.runtime, obj)
	}
	if err := w.runtime.Delete(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
	w.writes = nil
}

// released lets an object go that is being deleted.
func (w *world) released(obj client.Object) {
	w.t.Helper()
	obj.SetFinalizers(nil)
	mustUpdate(w.t, w.runtime, obj)
}

// deletedNamespace deletes the placement's namespace, with the kro instance in it.
func (w *world) deletedNamespace(held bool) {
	w.t.Helper()
	w.deleted(w.kroInstance(), false)
	w.deleted(w.namespace(), held)
}

func (w *world) losses() []string {
	var told []string
	for _, event := range w.events {
		if strings.HasSuffix(event.Reason, "Lost") {
			told = append(told, event.Type+" "+event.Reason)
		}
	}
	return told
}

func countedLosses(t *testing.T, reason string) float64 {
	t.Helper()
	var metric dto.Metric
	if err := lostTotal.WithLabelValues(reason).Write(&metric); err != nil {
		t.Fatal(err)
	}
	return metric.GetCounter().GetValue()
}

// wantLost checks what is said right after a loss.
func (w *world) wantLost(reason string) {
	w.t.Helper()
	if got := w.losses(); !slices.Equal(got, []string{"Warning " + reason}) {
		w.t.Errorf("told %v", got)
	}
	for name, want := range map[string]metav1.ConditionStatus{"Ready": metav1.ConditionFalse, "Lost": metav1.ConditionTrue} {
		got := fixture.ConditionOf(w.t, w.inKCP, name)
		if got.Status != want || !strings.Contains(got.Message, "deleted on the runtime cluster") || !strings.Contains(got.Message, "volumes held may be gone") {
			w.t.Errorf("%s is %s: %s, %q", name, got.Status, got.Reason, got.Message)
		}
	}
	if got := fixture.ConditionOf(w.t, w.inKCP, "Lost").Reason; got != reason {
		w.t.Errorf("Lost has the reason %s", got)
	}
}

func TestWhatIsDeletedUnderTheProviderIsToldBeforeItIsMadeAgain(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		loses   func(*world)
		goes    func(*world)
		suspend bool
	}{
		"the namespace is being deleted": {
			reason: outcome.ReasonPlacementLost,
			loses:  func(w *world) { w.deletedNamespace(true) },
			goes:   func(w *world) { w.released(w.namespace()) },
		},
		"the namespace is gone": {reason: outcome.ReasonPlacementLost, loses: func(w *world) { w.deletedNamespace(false) }},
		"the kro instance is being deleted": {
			reason: outcome.ReasonResourcesLost,
			loses:  func(w *world) { w.deleted(w.kroInstance(), true) },
			goes:   func(w *world) { w.released(w.kroInstance()) },
		},
		"the kro instance is gone": {reason: outcome.ReasonResourcesLost, loses: func(w *world) { w.deleted(w.kroInstance(), false) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := readyWorld(t)
			counted := countedLosses(t, test.reason)
			test.loses(w)
			w.step(t)
			w.wantLost(test.reason)
			if len(w.writes) != 0 {
				t.Errorf("made again before it was told: %v", w.writes)
			}
			w.settle() // while it goes, or once it is gone
			if test.goes != nil {
				w.wantLost(test.reason)
				test.goes(w)
				w.settle()
			}
			w.becomesReady()
			if got := countedLosses(t, test.reason) - counted; got != 1 || len(w.losses()) != 1 {
				t.Errorf("counted %v times, told %v", got, w.losses())
			}
			if got := fixture.ConditionOf(t, w.inKCP, "Lost"); got.Status != metav1.ConditionTrue || got.Reason != test.reason {
				t.Errorf("Ready again, and Lost says %s, %s", got.Status, got.Reason)
			}
			test.loses(w)
			w.step(t)
			if got := w.losses(); len(got) != 2 {
				t.Errorf("the second loss: told %v", got)
			}
		})
	}
}

func TestTheTraceOfALossStaysUntilTheSpecChanges(t *testing.T) {
	w := readyWorld(t)
	w.deletedNamespace(false)
	w.settle()
	w.settle()
	fixture.ConditionOf(t, w.inKCP, "Lost")
	w.change("blue", "color")
	w.inKCP.SetGeneration(2)
	w.settle()
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil || meta.FindStatusCondition(status.Conditions, "Lost") != nil {
		t.Errorf("Lost is still there (%v): %v", err, status.Conditions)
	}
}

// A suspended instance has volumes to lose as well.
func TestASuspendedInstanceThatLosesItsPlacementSaysSo(t *testing.T) {
	w := readyWorld(t)
	w.change(true, "suspended")
	w.inKCP.SetGeneration(2)
	w.settle()
	w.deletedNamespace(false)
	w.step(t)
	if got := w.losses(); !slices.Equal(got, []string{"Warning " + outcome.ReasonPlacementLost}) {
		t.Errorf("told %v", got)
	}
	if got := fixture.ConditionOf(t, w.inKCP, "Lost"); got.Status != metav1.ConditionTrue {
		t.Errorf("Lost says %s", got.Status)
	}
}

// otherwise is an API server that answers some questions in its own way.
type otherwise struct {
	client.Reader
	get func(obj client.Object) (answered bool, err error)
}

func (o otherwise) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if answered, err := o.get(obj); answered {
		return err
	}
	return o.Reader.Get(ctx, key, obj, opts...)
}

func TestNobodyIsAccusedOfADeletionThatDidNotHappen(t *testing.T) {
	for name, change := range map[string]func(*world){
		"the instance is new": func(w *world) { delete(w.inKCP.Object, "status"); w.deletedNamespace(false) },
		"it has never had a kro instance": func(w *world) {
			w.deleted(w.kroInstance(), false)
			w.says("Composed", outcome.ReasonSpecRefused)
			w.inKCP.Object["status"].(map[string]any)["phase"] = "Failed"
		},
		"the cache has not seen the namespace yet": func(w *world) {
			ns := w.namespace()
			w.deleted(w.namespace(), false)
			w.liveRuntime = otherwise{w.runtime, func(obj client.Object) (bool, error) {
				if asked, ok := obj.(*corev1.Namespace); ok {
					ns.DeepCopyInto(asked)
					return true, nil
				}
				return false, nil
			}}
		},
		"the API server does not know the kind yet": func(w *world) {
			w.liveRuntime = otherwise{w.runtime, func(obj client.Object) (bool, error) {
				_, ok := obj.(*unstructured.Unstructured)
				return ok, notServed()
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := readyWorld(t)
			change(w)
			for range 2 {
				_ = w.reconcile() // an API server that does not know the kind is asked again
			}
			if got := w.losses(); len(got) != 0 {
				t.Errorf("told %v", got)
			}
		})
	}
}

// says gives a condition of the instance another reason, and makes it false.
func (w *world) says(name, reason string) {
	w.t.Helper()
	list, _, _ := unstructured.NestedSlice(w.inKCP.Object, "status", "conditions")
	for _, item := range list {
		if c := item.(map[string]any); c["type"] == name {
			c["status"], c["reason"] = "False", reason
		}
	}
	if err := unstructured.SetNestedSlice(w.inKCP.Object, list, "status", "conditions"); err != nil {
		w.t.Fatal(err)
	}
}

// The deletion of a namespace deletes the kro instance too, which the provider may hear of first.
func TestALostNamespaceIsNotToldAsLostResources(t *testing.T) {
	w := readyWorld(t)
	w.deleted(w.kroInstance(), true)
	w.liveRuntime = otherwise{w.runtime, func(obj client.Object) (bool, error) {
		_, ok := obj.(*corev1.Namespace)
		return ok, apierrors.NewNotFound(corev1.Resource("namespaces"), w.id().Namespace())
	}}
	w.step(t)
	w.wantLost(outcome.ReasonPlacementLost)
}

// What an instance waits for after a loss must not hide that it was lost.
func TestALossIsToldAlsoWhereItsPlaceIsTaken(t *testing.T) {
	w := readyWorld(t)
	w.deletedNamespace(false)
	w.settings.Infrastructure.Limits = &sandbarv1alpha1.Limits{PlacementLimits: sandbarv1alpha1.PlacementLimits{InstancesPerWorkspace: new(int32(0))}}
	w.capacity = newCapacity()
	for range 2 {
		w.step(t)
	}
	if got := fixture.ConditionOf(t, w.inKCP, "Placed").Reason; got != outcome.ReasonWorkspaceLimit {
		t.Fatalf("Placed has the reason %s", got)
	}
	if got := w.losses(); !slices.Equal(got, []string{"Warning " + outcome.ReasonPlacementLost}) {
		t.Errorf("told %v", got)
	}
}
