// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var sandboxClaims = builtin.Of("SandboxClaim").GVR()

// claim creates a SandboxClaim of a spec in YAML.
func (tn *tenant) claim(name, spec string) error { return tn.claimWith(name, spec, nil) }

// claimWith creates a SandboxClaim with annotations.
func (tn *tenant) claimWith(name, spec string, annotations map[string]string) error {
	tn.t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		tn.t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxClaim", "spec": fields}}
	obj.SetName(name)
	obj.SetAnnotations(annotations)
	_, err := tn.dyn.Resource(sandboxClaims).Namespace("default").Create(tn.t.Context(), obj, metav1.CreateOptions{})
	return err
}

func (tn *tenant) mustClaim(name, spec string) {
	tn.t.Helper()
	if err := tn.claim(name, spec); err != nil {
		tn.t.Fatal(err)
	}
}

// waitClaim waits until a claim has a phase.
func (tn *tenant) waitClaim(name string, phase sandbarv1alpha1.SandboxClaimPhase) (status sandbarv1alpha1.SandboxClaimStatus) {
	tn.t.Helper()
	return tn.waitClaimThat(name, "is "+string(phase), func(s sandbarv1alpha1.SandboxClaimStatus) bool { return s.Phase == phase })
}

// waitClaimThat waits until a claim has a status.
func (tn *tenant) waitClaimThat(name, what string, is func(sandbarv1alpha1.SandboxClaimStatus) bool) (status sandbarv1alpha1.SandboxClaimStatus) {
	tn.t.Helper()
	eventually(tn.t, fmt.Sprintf("SandboxClaim %s %s", name, what), func() error {
		obj, err := tn.dyn.Resource(sandboxClaims).Namespace("default").Get(tn.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		claim := &sandbarv1alpha1.SandboxClaim{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, claim); err != nil {
			return err
		}
		if status = claim.Status; !is(status) {
			return fmt.Errorf("its status is %+v", status)
		}
		return nil
	})
	return status
}

func (tn *tenant) deleteClaim(name string) {
	tn.t.Helper()
	if err := tn.dyn.Resource(sandboxClaims).Namespace("default").Delete(tn.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		tn.t.Fatal(err)
	}
	eventually(tn.t, "SandboxClaim "+name+" is gone", func() error {
		_, err := tn.dyn.Resource(sandboxClaims).Namespace("default").Get(tn.t.Context(), name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading it: %w", err)
		}
		return nil
	})
}

// waitBoxes waits until these Sandboxes are there, of those with a label.
func (tn *tenant) waitBoxes(selector string, want int) {
	tn.t.Helper()
	eventually(tn.t, fmt.Sprintf("%d Sandboxes with %s", want, selector), func() error {
		list, err := tn.dyn.Resource(sandboxes).Namespace("default").List(tn.t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err == nil && len(list.Items) != want {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
}

// on is the same tenant in a subtest, so that a failure there ends that subtest only.
func (tn *tenant) on(t *testing.T) *tenant {
	same := *tn
	same.t = t
	return &same
}

// TestSandboxClaims: a tenant gets several Sandboxes at once, warm ones first, or none in time, and gives them back
// together or keeps them.
func TestSandboxClaims(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	for _, resource := range []schema.GroupVersionResource{sandboxes, sandboxTemplates, sandboxSets, sandboxClaims} {
		tn.waitServed(resource)
	}
	tn.mustTemplate("own", `{template: {spec: `+podSaying("own")+`}}`)
	tn.mustSet("warm", `{replicas: 1, templateRef: {name: own}}`)
	tn.waitSet("warm", "has one", hasAvailable(1))

	t.Run("all of them, the warm one among them", func(t *testing.T) {
		tn.mustClaim("pair", `{replicas: 2, templateRef: {name: own}, sandboxMetadata: {labels: {batch: first}}}`)
		status := tn.waitClaim("pair", sandbarv1alpha1.ClaimBound)
		if status.ReadyReplicas != 2 || len(status.Sandboxes) != 2 || status.Sandboxes[0].URL == "" {
			t.Errorf("%+v", status)
		}
		starts := map[string]int{}
		for _, s := range status.Sandboxes {
			starts[s.Start]++
			tn.existing(sandboxes, s.Name).started()
		}
		if starts[sandbarv1alpha1.StartWarm] == 0 {
			t.Errorf("they started as %v", starts)
		}
		tn.waitBoxes("batch=first", 2)
		tn.deleteClaim("pair")
		tn.waitBoxes("batch=first", 0)
	})
	t.Run("kept when the claim goes", func(t *testing.T) {
		tn.mustClaim("kept", `{templateRef: {name: own}, onDelete: Release, sandboxMetadata: {labels: {batch: kept}}}`)
		tn.waitClaim("kept", sandbarv1alpha1.ClaimBound)
		tn.deleteClaim("kept")
		box := tn.existing(sandboxes, "kept")
		box.started()
		obj, err := box.get()
		if err != nil || obj.GetDeletionTimestamp() != nil || obj.GetLabels()[placement.LabelClaim] != "" {
			t.Errorf("%v, %v", obj, err)
		}
	})
	t.Run("none, since not all come in time", func(t *testing.T) {
		tn.box("late-1", `{prewarm: None, template: {templateRef: {kind: SandboxTemplate, name: own}}}`)
		tn.mustClaim("late", `{replicas: 2, templateRef: {name: own}, allOrNothing: true, claimTimeout: 5s, sandboxMetadata: {labels: {batch: late}}}`)
		tn.waitClaim("late", sandbarv1alpha1.ClaimFailed)
		tn.waitBoxes("batch=late", 0)
		if _, err := tn.existing(sandboxes, "late-1").get(); err != nil {
			t.Errorf("one that is not the claim's: %v", err)
		}
	})
	t.Run("the same for the same key, and none for another request with it", func(t *testing.T) { tn.on(t).claimsWithAKey() })
	t.Run("by one call", func(t *testing.T) { tn.on(t).claimsByOneCall() })
	t.Run("that cannot be", func(t *testing.T) {
		for name, spec := range map[string]string{
			"none":     `{replicas: 0, templateRef: {name: own}}`,
			"too many": `{replicas: 101, templateRef: {name: own}}`,
			"long":     `{templateRef: {name: own}, claimTimeout: 2h}`,
			"reserved": `{templateRef: {name: own}, sandboxMetadata: {labels: {sandbar.dev/claim: x}}}`,
		} {
			if err := tn.claim("refused", spec); !apierrors.IsInvalid(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("and all of it goes with the binding", func(t *testing.T) { tn.on(t).goesWithItsBinding() })
}

// goesWithItsBinding deletes the APIBinding, and waits until nothing of the workspace is left on the runtime cluster:
// no Sandbox, and no member of a set.
func (tn *tenant) goesWithItsBinding() {
	tn.t.Helper()
	namespaces := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Namespaces()
	left := func() ([]string, error) {
		list, err := namespaces.List(tn.t.Context(), metav1.ListOptions{LabelSelector: placement.LabelCluster + "=" + tn.cluster})
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, nil
	}
	if names, err := left(); err != nil || len(names) == 0 {
		tn.t.Fatalf("before: %v, %v", names, err)
	}
	if err := tn.dyn.Resource(apibindings).Delete(tn.t.Context(), "sandbar.dev", metav1.DeleteOptions{}); err != nil {
		tn.t.Fatal(err)
	}
	eventually(tn.t, "nothing is left of the workspace", func() error {
		names, err := left()
		if err == nil && len(names) > 0 {
			err = fmt.Errorf("there are %v", names)
		}
		return err
	})
}
