// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package instance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// limit sets how many instances a workspace may have.
func (p *provider) limit(t *testing.T, n int32) {
	t.Helper()
	infrastructure := &sandbarv1alpha1.InfrastructureProvider{}
	mustDo(t, p.client.Get(t.Context(), client.ObjectKey{Name: sandbarv1alpha1.InfrastructureProviderName}, infrastructure))
	before := infrastructure.DeepCopy()
	infrastructure.Spec.Limits = &sandbarv1alpha1.Limits{PlacementLimits: sandbarv1alpha1.PlacementLimits{InstancesPerWorkspace: &n}}
	mustDo(t, p.client.Patch(t.Context(), infrastructure, client.MergeFrom(before)))
}

// waitPlaced waits until n of the named instances are Ready and all others wait, none of which may
// be older, and returns the names of those that are Ready.
func (tn *tenant) waitPlaced(t *testing.T, n int, names ...string) (ready []string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d of %d instances are Ready and the others wait", n, len(names)), func() error {
		ready = nil
		var youngestReady, oldestWaiting time.Time
		for _, name := range names {
			instance := tn.get(t, name)
			phase, _, _ := unstructured.NestedString(instance.Object, "status", "phase")
			created := instance.GetCreationTimestamp().Time
			switch {
			case isReady(instance):
				ready = append(ready, name)
				if created.After(youngestReady) {
					youngestReady = created
				}
			case phase != "PendingCapacity":
				return fmt.Errorf("%s is %s: %v", name, phase, instance.Object["status"])
			case oldestWaiting.IsZero() || created.Before(oldestWaiting):
				oldestWaiting = created
			}
		}
		if len(ready) != n {
			return fmt.Errorf("%v are Ready", ready)
		}
		if !oldestWaiting.IsZero() && oldestWaiting.Before(youngestReady) {
			return fmt.Errorf("one that was made at %s waits, and one of %s is Ready", oldestWaiting, youngestReady)
		}
		return nil
	})
	return ready
}

func TestNoMoreInstancesOfAWorkspaceArePlacedThanTheLimit(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.limit(t, 3)
	p.run(t)
	alice, bob := p.newTenant(t), p.newTenant(t)
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("n-%d", i))
		alice.create(t, names[i], "red")
	}
	bob.create(t, "web", "blue")
	bob.waitReady(t, "web")

	ready := alice.waitPlaced(t, 3, names...)
	if n := len(p.placements(t)); n != 4 {
		t.Errorf("there are %d placements, want alice's three and bob's", n)
	}
	p.quiet(t, p.reconciles())

	// The next in line is woken by the end of another one; nothing polls.
	gone := alice.get(t, ready[0])
	alice.delete(t, ready[0])
	p.waitGone(t, alice, gone)
	names = slices.DeleteFunc(names, func(name string) bool { return name == ready[0] })
	alice.waitPlaced(t, 3, names...)

	p.limit(t, 5)
	alice.waitPlaced(t, 5, names...)
	p.limit(t, 1)
	p.quiet(t, p.reconciles())
	alice.waitPlaced(t, 5, names...)
}
