// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// limitInstances sets how many instances a workspace may have, for as long as the test runs.
func limitInstances(t *testing.T, n int) {
	t.Helper()
	changeSettings(t, fmt.Sprintf(`{"limits":{"instancesPerWorkspace":%d}}`, n), `{"limits":{"instancesPerWorkspace":null}}`)
}

// placesOf watches the placements of a workspace from now on; the result returns the names of all that have been there.
func placesOf(tn *tenant) func() []string {
	tn.t.Helper()
	namespaces := dynamic.NewForConfigOrDie(world.Stack.Runtime()).Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	written := writesOf(tn.t, namespaces, metav1.ListOptions{LabelSelector: placement.LabelCluster + "=" + tn.cluster})
	return func() (names []string) {
		for _, namespace := range written() {
			names = append(names, namespace.GetName())
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
}

// waitsForRoom waits until an instance says that its workspace has no room for it.
func (i *instance) waitsForRoom() {
	i.tn.t.Helper()
	eventually(i.tn.t, i.name+" waits for room", func() error {
		obj, err := i.get()
		if err != nil {
			return err
		}
		phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
		if c := condition(obj, sandbarv1alpha1.InstancePlaced); phase != string(sandbarv1alpha1.InstancePendingCapacity) || c == nil || c["reason"] != "WorkspaceLimit" {
			return fmt.Errorf("it is %s, and Placed is %v", phase, c)
		}
		return nil
	})
}

// TestAWorkspaceHasNoMoreInstancesThanItMay: one too many waits and is placed when there is room, and callers of two replicas
// who claim at once get no more together than there is room for.
func TestAWorkspaceHasNoMoreInstancesThanItMay(t *testing.T) {
	long(t, "unit tests have most of its promise, and it changes the provider's limits")
	breaks(t)
	const most = 5
	limitInstances(t, most)
	tn := setTenant(t, "bob")
	tn.mustTemplate("own", `{template: {spec: `+podAsking("own", small)+`}}`)
	var boxes []*instance
	for i := range most {
		boxes = append(boxes, tn.box(fmt.Sprintf("box-%d", i), claimsOwn))
	}
	for _, box := range boxes {
		box.waitReady()
	}
	sixth := tn.box("sixth", claimsOwn)
	sixth.waitsForRoom()
	if got := len(namespacesWith(t, map[string]string{placement.LabelCluster: tn.cluster})); got != most {
		t.Errorf("there are %d placements, and may be %d", got, most)
	}
	boxes[0].delete()
	sixth.waitReady()

	for _, box := range boxes[1:3] {
		box.delete()
		waitDeleted(t, box)
	}
	eventually(t, "there is room for two", func() error {
		if got := len(namespacesWith(t, map[string]string{placement.LabelCluster: tn.cluster})); got != most-2 {
			return fmt.Errorf("%d are placed", got)
		}
		return nil
	})
	places := placesOf(tn)
	me := callAs(t, tn.token)
	callers := []*caller{me, by(me, startReplica(t, "replica-claims"))}
	claimAtOnce(t, tn, callers, 8)
	eventually(t, "both places are taken", func() error {
		if got := places(); len(got) != 2 {
			return fmt.Errorf("%d are", len(got))
		}
		return nil
	})
	// By the time that another one is told to wait, those that were created before it have been decided about.
	tn.box("last", claimsOwn).waitsForRoom()
	if got := places(); len(got) != 2 {
		t.Errorf("there was room for two, and these were made: %v", got)
	}
}

// claimAtOnce has each caller ask for so many Sandboxes at once; each is made, or refused for want of room.
func claimAtOnce(t *testing.T, tn *tenant, callers []*caller, each int) {
	t.Helper()
	var all sync.WaitGroup
	for _, c := range callers {
		for range each {
			all.Go(func() {
				code, body := c.do(http.MethodPost, tn.claimPath(), []byte(`{"prewarm":"None","labels":{"batch":"race"},"wait":"0s"}`))
				if code != http.StatusAccepted && code != http.StatusCreated && code != http.StatusTooManyRequests {
					t.Errorf("a claim was answered with %d: %s", code, body)
				}
			})
		}
	}
	all.Wait()
}

// TestABatchThatFindsNoRoomLeavesNothing: of twenty Sandboxes that must come together there is room for fifteen, and after the
// deadline none of them is left, in the workspace or on the runtime cluster.
func TestABatchThatFindsNoRoomLeavesNothing(t *testing.T) {
	long(t, "it makes fifteen sandboxes in vain, and changes the provider's limits")
	breaks(t)
	const batch, room = 20, 15
	limitInstances(t, room)
	tn := setTenant(t, "bob")
	tn.waitServed(sandboxClaims)
	tn.mustTemplate("own", `{template: {spec: `+podAsking("own", small)+`}}`)
	places := placesOf(tn)
	tn.mustClaim("big", fmt.Sprintf(`{replicas: %d, templateRef: {name: own}, allOrNothing: true, claimTimeout: 45s, sandboxMetadata: {labels: {batch: big}}}`, batch))
	eventually(t, "as many are placed as there is room for", func() error {
		if got := places(); len(got) < room {
			return fmt.Errorf("%d are", len(got))
		}
		return nil
	})
	status := tn.waitClaim("big", sandbarv1alpha1.ClaimFailed)
	if len(status.Conditions) == 0 {
		t.Errorf("it does not say why: %+v", status)
	}
	tn.waitBoxes("batch=big", 0)
	eventually(t, "nothing of it is left on the runtime cluster", func() error {
		if left := namespacesWith(t, map[string]string{placement.LabelCluster: tn.cluster}); len(left) > 0 {
			return fmt.Errorf("%d placements are", len(left))
		}
		return nil
	})
	if got := places(); len(got) != room {
		t.Errorf("%d placements were made, and there was room for %d", len(got), room)
	}
}
