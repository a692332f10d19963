// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

// ownerIn is an object or a kro instance's owner.
func ownerIn(obj *unstructured.Unstructured) any {
	spec, _ := obj.Object["spec"].(map[string]any)
	return spec["owner"]
}

// withFormerOwner is a world with an instance of the former form, which is Ready; the present form is in force after it.
func withFormerOwner(t *testing.T) *world {
	t.Helper()
	w := newLife(t, map[string]any{"sleepAfterUnused": "1h"})
	w.describe("ann")
	w.settle()
	w.becomesReady()
	w.settle()
	w.settings.Conversions = ownersConverted(t)
	return w
}

var newForm = map[string]any{"id": "ann"}

func TestAnInstanceOfTheFormerFormIsConverted(t *testing.T) {
	w := withFormerOwner(t)
	if got := w.describedOwner(); got != "ann" {
		t.Fatalf("the namespace tells the owner %q", got)
	}
	w.patches = nil
	w.mustReconcile()
	if !slices.Equal(w.patches, []string{"main", "status"}) {
		t.Errorf("writes %v, want one of the object and one of its status", w.patches)
	}
	if diff := cmp.Diff([]any{newForm, newForm}, []any{ownerIn(w.inKCP), ownerIn(w.kroInstance())}); diff != "" {
		t.Errorf("the tenant's object and the kro instance (-want +got):\n%s", diff)
	}
	if got := w.describedOwner(); got != "user:ann" {
		t.Errorf("the namespace tells the owner %q", got)
	}
	if got := w.lease().Annotations[place.AnnotationGeneration]; got != "2" {
		t.Errorf("the Lease has seen generation %s", got)
	}
	w.settle()
}

// A binding gets the new schema some moments after the export has it.
func TestAWorkspaceWithTheFormerSchemaIsTriedAgain(t *testing.T) {
	for name, refusal := range map[string]error{
		"the schema refuses it": apierrors.NewInvalid(fixture.Thing.GVK.GroupKind(), "web", nil),
		"it has no such field":  apierrors.NewBadRequest(`strict decoding error: unknown field "spec.owner.id"`),
	} {
		t.Run(name, func(t *testing.T) {
			w := withFormerOwner(t)
			before := w.inKCP.DeepCopy()
			w.settings.Since = w.now()
			w.refuse = func(patch map[string]any) error {
				if patch["spec"] != nil {
					return refusal
				}
				return nil
			}
			for _, c := range []struct{ since, again time.Duration }{{0, time.Second}, {10 * time.Second, 5 * time.Second}, {24 * time.Hour, 5 * time.Minute}} {
				w.settings.Since = w.now().Add(-c.since)
				result, err := w.reconciler().Reconcile(t.Context(), testRequest)
				if err != nil || result.RequeueAfter != c.again {
					t.Errorf("after %s: %v, again after %s, want %s", c.since, err, result.RequeueAfter, c.again)
				}
			}
			if diff := cmp.Diff([]any{"ann", newForm}, []any{ownerIn(w.inKCP), ownerIn(w.kroInstance())}); diff != "" {
				t.Errorf("the tenant's object and the kro instance (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Object["status"], w.inKCP.Object["status"]); diff != "" {
				t.Errorf("the status was changed (-was +is):\n%s", diff)
			}
			w.refuse = nil
			w.settle()
			if diff := cmp.Diff(any(newForm), ownerIn(w.inKCP)); diff != "" {
				t.Errorf("once it is taken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAConversionDoesNotCountAsUseAndATenantsChangeDoes(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		used   bool
	}{
		"a conversion": {change: func(*world) {}},
		"a tenant's change": {change: func(w *world) {
			w.inKCP.Object["spec"].(map[string]any)["color"] = "blue"
			w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
			w.settings.Conversions = nil
		}, used: true},
		"a tenant's change that is converted": {change: func(w *world) {
			w.inKCP.Object["spec"].(map[string]any)["color"] = "blue"
			w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
		}, used: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := withFormerOwner(t)
			w.pass(2 * time.Hour)
			conversions := w.settings.Conversions
			w.settings.Conversions = nil
			w.settle()
			if suspended, _, _ := unstructured.NestedBool(w.kroInstance().Object, "spec", "suspended"); !suspended {
				t.Fatal("it does not sleep")
			}
			w.settings.Conversions = conversions
			tc.change(w)
			w.settle()
			if suspended, _, _ := unstructured.NestedBool(w.kroInstance().Object, "spec", "suspended"); suspended == tc.used {
				t.Errorf("it sleeps: %v", suspended)
			}
			if used := w.lease().Spec.RenewTime.Time.After(noon); used != tc.used {
				t.Errorf("it counts as used: %v", used)
			}
			if phase, _, _ := unstructured.NestedString(w.inKCP.Object, "status", "phase"); !tc.used && phase != string(sandbarv1alpha1.InstanceSleeping) {
				t.Errorf("it is %s", phase)
			}
		})
	}
}

func TestAnInstanceThatIsBeingDeletedIsNotConverted(t *testing.T) {
	w := withFormerOwner(t)
	w.inKCP.SetDeletionTimestamp(&metav1.Time{Time: w.now()})
	w.refuse = func(patch map[string]any) error {
		if patch["spec"] != nil {
			t.Errorf("it is changed by %v", patch)
		}
		return nil
	}
	w.mustReconcile()
	if w.inKCP != nil && !slices.Contains(w.inKCP.GetFinalizers(), placement.Finalizer) {
		t.Error("it was released before its placement is gone")
	}
}

func TestAConversionThatMeetsAnotherWriteIsTriedAgain(t *testing.T) {
	w := withFormerOwner(t)
	w.meanwhile = func() {
		w.describe("bob")
		w.inKCP.SetResourceVersion("1000")
	}
	result, err := w.reconciler().Reconcile(t.Context(), testRequest)
	if err != nil || result.RequeueAfter != changedAgain {
		t.Errorf("%v, again after %s", err, result.RequeueAfter)
	}
	if got := ownerIn(w.inKCP); got != "bob" {
		t.Errorf("the owner is %v: another's write was undone", got)
	}
	w.settle()
	if diff := cmp.Diff(any(map[string]any{"id": "bob"}), ownerIn(w.inKCP)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAWriteOfTheNewFormThatFailsIsAnError(t *testing.T) {
	w := withFormerOwner(t)
	w.refuse = func(map[string]any) error { return apierrors.NewInternalError(errors.New("etcd is away")) }
	if err := w.reconcile(); err == nil || !apierrors.IsInternalError(err) {
		t.Errorf("err = %v", err)
	}
}
