// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestCreation: an instance has its finalizer and its creator from the first moment, also if its manifest
// says otherwise, and nobody becomes the creator later.
func TestCreation(t *testing.T) {
	tn := newTenant(t, "alice")
	tn.waitServed(runners)
	const user = "alice"
	objects := tn.dyn.Resource(runners).Namespace("default")
	manifest := func(annotations map[string]string, finalizers ...string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner", "spec": map[string]any{"projectRef": "p", "suspended": true},
		}}
		obj.SetName("made")
		obj.SetAnnotations(annotations)
		obj.SetFinalizers(finalizers)
		return obj
	}
	isCreated := func(t *testing.T, obj *unstructured.Unstructured, finalizers ...string) {
		t.Helper()
		if got := obj.GetAnnotations()[placement.AnnotationCreatedBy]; got != user {
			t.Errorf("created by %q, want %q", got, user)
		}
		if finalizers = append(finalizers, placement.Finalizer); !slices.Equal(obj.GetFinalizers(), finalizers) {
			t.Errorf("finalizers %v, want %v", obj.GetFinalizers(), finalizers)
		}
	}
	forged := map[string]string{placement.AnnotationCreatedBy: "mallory", "app.example.com/mine": "kept"}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for name, test := range map[string]struct {
		obj        *unstructured.Unstructured
		finalizers []string
	}{
		"plain":                          {obj: manifest(nil)},
		"with a creator of its own":      {obj: manifest(forged)},
		"with another finalizer":         {obj: manifest(nil, "example.com/mine"), finalizers: []string{"example.com/mine"}},
		"with the finalizer in it":       {obj: manifest(forged, placement.Finalizer)},
		"with an empty list of each one": {obj: manifest(map[string]string{}, []string{}...)},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := objects.Create(t.Context(), test.obj, dry)
			if err != nil {
				t.Fatal(err)
			}
			isCreated(t, made, test.finalizers...)
		})
	}
	t.Run("by server-side apply", func(t *testing.T) {
		obj := manifest(nil)
		for range 2 { // the second time it is there
			made, err := objects.Apply(t.Context(), "made", obj, metav1.ApplyOptions{FieldManager: "me", Force: true})
			if err != nil {
				t.Fatal(err)
			}
			isCreated(t, made)
		}
	})
	patch := func(annotation string) error {
		_, err := objects.Patch(t.Context(), "made", types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+placement.AnnotationCreatedBy+`":`+annotation+`}}}`), metav1.PatchOptions{})
		return err
	}
	t.Run("and is not changed", func(t *testing.T) {
		if err := patch(`"mallory"`); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is written at the creation alone") {
			t.Errorf("another creator: %v", err)
		}
	})
	t.Run("nor taken away", func(t *testing.T) {
		if err := patch("null"); err != nil {
			t.Fatal(err)
		}
		eventuallyReplaced(t, objects, func(obj *unstructured.Unstructured) { obj.SetAnnotations(nil) })
		got, err := objects.Get(t.Context(), "made", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		isCreated(t, got)
	})
}

// eventuallyReplaced replaces the object with a changed one. The controllers write to it as well.
func eventuallyReplaced(t *testing.T, objects dynamic.ResourceInterface, change func(*unstructured.Unstructured)) {
	t.Helper()
	for range 10 {
		obj, err := objects.Get(t.Context(), "made", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(obj)
		if _, err = objects.Update(t.Context(), obj, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("ten conflicts in a row")
}
