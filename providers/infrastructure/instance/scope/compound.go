// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
)

// CompoundWords are what the operator says of a kind whose instances may have workloads in the place of a pod template.
type CompoundWords struct {
	// Fields say where tenants write the workloads, and of which Template the instances are that are made of them.
	Fields sandbarv1alpha1.CompoundFields
	// Part is the kind of those instances; zero while that Template offers none.
	Part export.Kind
	// To is the field of its spec that gets the workloads.
	To string
	// Route is the kind of the objects that lead requests to the workloads; zero if tenants cannot write routing.
	Route export.Kind
}

// Offered reports whether the provider offers the kind of which instances are made.
func (w *CompoundWords) Offered() bool { return w.Part.Resource != "" }

// Has reports whether an instance is a compound one. Its form does not change in its life.
func (w *CompoundWords) Has(obj *unstructured.Unstructured) bool {
	if w == nil {
		return false
	}
	_, has, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", w.Fields.From)
	return has
}

// RoutingOf is what an instance says of the requests that are led to its workloads; nil for nothing.
func (w *CompoundWords) RoutingOf(obj *unstructured.Unstructured) map[string]any {
	if w.Fields.RoutingFrom == "" {
		return nil
	}
	routing, _, _ := unstructured.NestedMap(obj.Object, "spec", w.Fields.RoutingFrom)
	return routing
}
