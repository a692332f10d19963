// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestAGraphOfSomebodyElseIsNotOverwritten writes a graph from what a lagging cache tells: that
// there is none yet, or that it is still as it was.
func TestAGraphOfSomebodyElseIsNotOverwritten(t *testing.T) {
	theirs := &krov1alpha1.ResourceGraphDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: "web", UID: "theirs", Labels: map[string]string{"owner": "them"},
	}}
	for name, tc := range map[string]struct {
		cached krov1alpha1.ResourceGraphDefinition
		want   func(error) bool
	}{
		"made after the cache was read": {want: apierrors.IsAlreadyExists},
		"took the place of ours after the cache was read": {
			cached: krov1alpha1.ResourceGraphDefinition{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "ours", ResourceVersion: "7"}},
			want:   apierrors.IsConflict,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := graphWriter(t, theirs)
			refused, err := r.writeGraph(t.Context(), graphOf(t, map[string]any{"resources": []any{}}), &tc.cached)
			if !tc.want(err) || refused != "" {
				t.Errorf("writing: %v, refused %q", err, refused)
			}
			if got := storedGraph(t, r); got.Labels["owner"] != "them" || r.isOurs(got, "web") {
				t.Errorf("labels = %v, want theirs", got.Labels)
			}
		})
	}
}

// TestAChangedGraphIsReplacedWhole drops what the Template no longer has and keeps what kro added.
func TestAChangedGraphIsReplacedWhole(t *testing.T) {
	r := graphWriter(t)
	write := func(graph map[string]any, stored *krov1alpha1.ResourceGraphDefinition) {
		t.Helper()
		if refused, err := r.writeGraph(t.Context(), graphOf(t, graph), stored); err != nil || refused != "" {
			t.Fatalf("writing: %v, refused %q", err, refused)
		}
	}
	write(map[string]any{"resources": []any{map[string]any{"id": "one"}, map[string]any{"id": "two"}}}, &krov1alpha1.ResourceGraphDefinition{})
	stored := storedGraph(t, r)
	stored.Finalizers = []string{"kro.run/finalizer"}
	stored.Labels["kro.run/version"] = "1"
	if err := r.runtime.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	stored = storedGraph(t, r)
	stored.UID = "a fake API server gives none"

	write(map[string]any{"resources": []any{map[string]any{"id": "two"}}}, stored)

	got := storedGraph(t, r)
	if diff := cmp.Diff([]string{"kro.run/finalizer"}, got.Finalizers); diff != "" || got.Labels["kro.run/version"] != "1" || !r.isOurs(got, "web") {
		t.Errorf("finalizers %v, labels %v: want kro's and ours", got.Finalizers, got.Labels)
	}
	if len(got.Spec.Resources) != 1 || got.Spec.Resources[0].ID != "two" {
		t.Errorf("resources = %v, want only two", got.Spec.Resources)
	}
}

func graphWriter(t *testing.T, objects ...client.Object) *reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(krov1alpha1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return &reconciler{runtime: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
}

func storedGraph(t *testing.T, r *reconciler) *krov1alpha1.ResourceGraphDefinition {
	t.Helper()
	rgd := &krov1alpha1.ResourceGraphDefinition{}
	if err := r.runtime.Get(t.Context(), client.ObjectKey{Name: "web"}, rgd); err != nil {
		t.Fatal(err)
	}
	return rgd
}

func graphOf(t *testing.T, graph map[string]any) *unstructured.Unstructured {
	t.Helper()
	desired, err := desiredGraph(placement.Names{}, "web", graph)
	if err != nil {
		t.Fatal(err)
	}
	return desired
}
