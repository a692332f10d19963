// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestWhatIsDeletedWhileItIsTaken: a claim, a set, its template, the binding and the workspace may go at the very moment
// at which Sandboxes take members of the set, and nothing is left of what went.
func TestWhatIsDeletedWhileItIsTaken(t *testing.T) {
	long(t, "each of its parts has a workspace with a set")
	calm(t)
	const members, boxes = 3, 5
	for name, part := range map[string]struct {
		// left is how many placements stay: those of the Sandboxes that nobody has deleted.
		left int
		end  func(*tenant) error
	}{
		"the Sandboxes": {members, func(tn *tenant) error {
			return tn.dyn.Resource(sandboxes).Namespace("default").DeleteCollection(tn.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		}},
		"a SandboxClaim": {members + boxes, func(tn *tenant) error {
			tn.mustClaim("batch", `{replicas: 3, templateRef: {name: own}}`)
			tn.waitBoxes("sandbar.dev/claim=batch", 3)
			tn.deleteClaim("batch")
			return nil
		}},
		"the set": {boxes, func(tn *tenant) error {
			return tn.dyn.Resource(sandboxSets).Namespace("default").Delete(tn.t.Context(), "warm", metav1.DeleteOptions{})
		}},
		"the template and the set": {boxes, func(tn *tenant) error {
			// Those that have begun keep their pods; one that has not waits for a template of the name.
			for _, name := range tn.boxNames() {
				tn.existing(sandboxes, name).started()
			}
			if err := tn.dyn.Resource(sandboxTemplates).Namespace("default").Delete(tn.t.Context(), "own", metav1.DeleteOptions{}); err != nil {
				return err
			}
			return tn.dyn.Resource(sandboxSets).Namespace("default").Delete(tn.t.Context(), "warm", metav1.DeleteOptions{})
		}},
		"the binding": {0, func(tn *tenant) error {
			return tn.dyn.Resource(apibindings).Delete(tn.t.Context(), "sandbar.dev", metav1.DeleteOptions{})
		}},
		"the workspace": {0, func(tn *tenant) error {
			root := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin("root"))
			return root.Resource(workspaces).Delete(tn.t.Context(), tn.workspace, metav1.DeleteOptions{})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tn := setTenant(t, "alice")
			tn.waitServed(sandboxClaims)
			tn.mustTemplate("own", `{template: {spec: `+podAsking("own", small)+`}}`)
			tn.mustSet("warm", fmt.Sprintf(`{replicas: %d, templateRef: {name: own}, scaleStrategy: {maxUnavailable: 100%%}}`, members))
			tn.waitSet("warm", "is full", hasAvailable(members))
			for i := range boxes {
				tn.box(fmt.Sprint("box-", i), claimsOwn)
			}
			if err := part.end(tn); err != nil {
				t.Fatal(err)
			}
			eventually(t, "nothing is left of what went", func() error {
				if left := namespacesWith(t, map[string]string{placement.LabelCluster: tn.cluster}); len(left) != part.left {
					return fmt.Errorf("%d placements are left, want %d", len(left), part.left)
				}
				return nil
			})
			if part.left < boxes {
				return
			}
			for i := range boxes {
				tn.existing(sandboxes, fmt.Sprint("box-", i)).started()
			}
		})
	}
}

func (tn *tenant) boxNames() (names []string) {
	tn.t.Helper()
	list, err := tn.dyn.Resource(sandboxes).Namespace("default").List(tn.t.Context(), metav1.ListOptions{})
	if err != nil {
		tn.t.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}
