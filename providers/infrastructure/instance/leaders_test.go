// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

// Two processes that both believe to lead: what the model of adoption found that this code did not hold to.

// give has another process give the Sandbox a member.
func (w *world) give(member string, at time.Time) {
	w.t.Helper()
	ns, err := w.namespaceNamed(member)
	if err != nil {
		w.t.Fatal(err)
	}
	placed := placement.Placed{Owner: fixture.Owner}
	placed.ID, _ = placement.IDOf(ns)
	ns.Labels = placed.NamespaceLabels(fixture.Thing.Template)
	ns.Annotations[placement.AnnotationInstanceName], ns.Annotations[placement.AnnotationInstanceNamespace] = "web", "team-a"
	ns.Annotations[placement.AnnotationAdoptedAt] = at.Format(time.RFC3339Nano)
	if err := w.runtime.Update(w.t.Context(), ns); err != nil {
		w.t.Fatal(err)
	}
}

// A Sandbox was made a placement, said so, and got a member from a process that had not seen the placement yet.
func TestASandboxThatSaysThatItHasAPlacementTakesNoMember(t *testing.T) {
	w := newWarmWorld(t, 0)
	w.mustReconcile()
	w.makeMember(testSet)
	w.stale, w.members, w.capacity = w.staleNamespaces(fixture.Owner.Cold().Namespace()), w.newMembers(), newCapacity()
	w.configure(testSet)
	for range 3 {
		w.mustReconcile()
	}
	if owned := w.ownedNames(); len(owned) != 1 || owned[0] != fixture.Owner.Cold().Namespace() {
		t.Errorf("it has %v", owned)
	}
	if len(w.memberNames()) != 1 {
		t.Error("the member was taken")
	}
}

// What was made for a Sandbox was removed for a member that another process had given it earlier, though its status told of the
// former.
func TestTheColdPlacementThatAStatusTellsOfStays(t *testing.T) {
	w := newWarmWorld(t, 0)
	w.mustReconcile()
	made := &w.namespaces()[0]
	made.CreationTimestamp = metav1.NewTime(fixture.Now)
	if err := w.runtime.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	w.makeMember(testSet)
	w.give(w.memberNames()[0], fixture.Now.Add(-time.Second))
	w.mustReconcile()
	if owned := w.ownedNames(); len(owned) != 1 || owned[0] != fixture.Owner.Cold().Namespace() {
		t.Errorf("it has %v", owned)
	}
}
