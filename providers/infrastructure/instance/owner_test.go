// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

// born is a placement that was there before the tenant's object that owns it.
var born = placement.Placed{ID: placement.ID{Origin: fixture.Provider, UID: "born-1"}, Owner: fixture.Owner, Object: fixture.Placed.Object}

func bornNamespace() *corev1.Namespace {
	ns := place.BuildNamespace(fixture.NewScope().In(born))
	ns.UID = "ns-born"
	return ns
}

func (w *world) namespaceNamed(name string) (*corev1.Namespace, error) {
	ns := &corev1.Namespace{}
	return ns, w.runtime.Get(w.t.Context(), types.NamespacedName{Name: name}, ns)
}

func TestAnInstanceKeepsThePlacementThatItOwns(t *testing.T) {
	w := newWorld(t, bornNamespace())
	w.settle()
	if _, err := w.namespaceNamed(fixture.Placed.Namespace()); !apierrors.IsNotFound(err) {
		t.Fatalf("a second placement: %v", err)
	}
	instance := fixture.Thing.NewObject()
	if err := w.runtime.Get(t.Context(), types.NamespacedName{Namespace: born.Namespace(), Name: placement.BornInstance}, instance); err != nil {
		t.Fatalf("its kro instance: %v", err)
	}
	for name, labels := range map[string]map[string]string{
		"the kro instance":   instance.GetLabels(),
		"the control Secret": w.secretLabels(born.Namespace(), placement.ControlSecret),
	} {
		if diff := cmp.Diff(born.Labels(fixture.Thing.Template), labels); diff != "" {
			t.Errorf("%s says more, or less, than which placement it is part of (-want +got):\n%s", name, diff)
		}
	}
	t.Run("and it goes with the instance", func(t *testing.T) {
		w.deleteInKCP()
		for range 5 {
			if err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.namespaceNamed(born.Namespace()); !apierrors.IsNotFound(err) || w.inKCP != nil {
			t.Errorf("the placement is still there (%v), or its instance: %v", err, w.inKCP)
		}
	})
}

func (w *world) secretLabels(namespace, name string) map[string]string {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.runtime.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, secret); err != nil {
		w.t.Fatal(err)
	}
	return secret.Labels
}

func TestAPlacementThatWasThereFirstGoesWithItsOwnersName(t *testing.T) {
	w := newWorld(t, bornNamespace())
	w.settle()
	w.inKCP = fixture.NewInstance()
	w.inKCP.SetUID("young")
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.namespaceNamed(born.Namespace()); !apierrors.IsNotFound(err) {
		t.Errorf("the former owner's placement is still there: %v", err)
	}
	if _, err := w.namespaceNamed(placement.Owner{Cluster: fixture.Cluster, UID: "young"}.Cold().Namespace()); err != nil {
		t.Errorf("the new owner's placement: %v", err)
	}
}

// A release that knew no owners apart left namespaces without their labels.
func TestAPlacementOfAnEarlierReleaseGetsItsOwnerWithOneWrite(t *testing.T) {
	w := newWorld(t)
	w.settle()
	ns, err := w.namespaceNamed(fixture.Placed.Namespace())
	if err != nil {
		t.Fatal(err)
	}
	delete(ns.Labels, placement.LabelOwnerUID)
	delete(ns.Labels, placement.LabelOwnerCluster)
	mustUpdate(t, w.runtime, ns)
	w.writes = nil
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apply Namespace"}, w.writes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if ns, err = w.namespaceNamed(ns.Name); err != nil {
		t.Fatal(err)
	}
	if owner, ok := placement.OwnerOf(ns); !ok || owner != fixture.Owner || ns.Labels[placement.LabelOwnerUID] != fixture.UID {
		t.Errorf("labels %v", ns.Labels)
	}
	w.settle()
}

func TestOfTwoPlacementsOfAnOwnerOneCounts(t *testing.T) {
	c := newCapacity()
	first, second := place.BuildNamespace(fixture.NewScope()), bornNamespace()
	c.seen(first)
	c.seen(second)
	if c.total != 1 {
		t.Errorf("%d are counted", c.total)
	}
	c.gone(second)
	if c.total != 1 {
		t.Error("the first is not counted any more")
	}
	c.gone(first)
	if c.total != 0 || len(c.placed) != 0 {
		t.Errorf("%d are counted: %v", c.total, c.placed)
	}
}

// Two leaders gave a Sandbox a placement each. When the one that was removed was gone, its owner counted as having none: it took
// a member, and lost the placement that its status told of.
func TestAnOwnerKeepsItsPlaceUntilTheLastOfItsPlacementsIsGone(t *testing.T) {
	first, second := place.BuildNamespace(fixture.NewScope()), bornNamespace()
	owner, ok := placement.OwnerOf(second)
	if former, also := placement.OwnerOf(first); !ok || !also || former != owner {
		t.Fatalf("they are %v's and %v's", former, owner)
	}
	for name, order := range map[string][2]*corev1.Namespace{"the first goes": {first, second}, "the second goes": {second, first}} {
		c := newCapacity()
		c.seen(first)
		c.seen(second)
		c.gone(order[0])
		if !c.holds(owner) || c.total != 1 {
			t.Errorf("%s: %d are counted, and the owner has a place: %v", name, c.total, c.holds(owner))
		}
		c.gone(order[1])
		if c.holds(owner) || c.total != 0 || len(c.placed) != 0 {
			t.Errorf("%s, and the other: %d are counted: %v", name, c.total, c.placed)
		}
	}
}

func TestWhatATenantTakesBackOfItsDescriptionGoes(t *testing.T) {
	w := newWorld(t)
	w.describe("ann")
	w.settle()
	if got := w.describedOwner(); got != "ann" {
		t.Fatalf("the namespace says %q", got)
	}
	w.describe("bob")
	w.writes = nil
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := w.describedOwner(); got != "bob" {
		t.Errorf("the namespace says %q", got)
	}
	w.describe("")
	w.settle()
	if got := w.describedOwner(); got != "" {
		t.Errorf("the namespace says %q", got)
	}
}

func (w *world) describe(owner string) {
	w.t.Helper()
	spec, _ := w.inKCP.Object["spec"].(map[string]any)
	if delete(spec, "owner"); owner != "" {
		spec["owner"] = owner
	}
}

func (w *world) describedOwner() string {
	w.t.Helper()
	ns, err := w.namespaceNamed(fixture.Placed.Namespace())
	if err != nil {
		w.t.Fatal(err)
	}
	return ns.Annotations[placement.AnnotationOwner]
}
