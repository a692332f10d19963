// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestABindingThatIsNotWhole: kcp calls a binding Bound once it serves all kinds of the export. While one is
// still being made, or for good if the workspace has a CRD of its own of that name, the tenant has the
// other kinds, and their verbs.
func TestABindingThatIsNotWhole(t *testing.T) {
	calm(t)
	tn := newWorkspace(t, "alice")
	crds := tn.dyn.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	own := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "sandboxes.sandbar.dev"},
		"spec": map[string]any{
			"group": "sandbar.dev", "scope": "Namespaced", "names": map[string]any{"plural": "sandboxes", "singular": "sandbox", "kind": "Sandbox", "listKind": "SandboxList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
	eventually(t, "the workspace may have a kind of its own", func() error {
		_, err := crds.Create(t.Context(), own, metav1.CreateOptions{})
		return err
	})
	// Not before kcp has it: the binding would take the name, and the two would be in each other's way.
	eventually(t, "the workspace has a kind of its own", func() error {
		got, err := crds.Get(t.Context(), own.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		return conditionError(got, "Established", metav1.ConditionTrue)
	})
	tn.bind()
	box := tn.runner("web")
	box.waitReady()
	binding, err := tn.dyn.Resource(apibindings).Get(t.Context(), "sandbar.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if phase, _, _ := unstructured.NestedString(binding.Object, "status", "phase"); phase != "Binding" {
		t.Fatalf("the binding is %q: this test has no binding that is not whole", phase)
	}
	c := callAs(t, tn.token)
	box.deploy(c, "half")
	// A preview asks kcp about a person without their token, through the binding's virtual workspace.
	page := newBrowser(t).open(t, box.previewLink(c, "/version"))
	until(page, "document.body.textContent.includes('half')", true)
}
