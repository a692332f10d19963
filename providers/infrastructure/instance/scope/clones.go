// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

// CloneWords are what the operator says of a kind whose instances are copies of workloads.
type CloneWords struct {
	// Fields say where tenants write what is copied and where the graph takes the copies from.
	Fields sandbarv1alpha1.CloneFields
	// Baselines are all that there are: their names, their specs, and whether they are being deleted.
	Baselines []sandbarv1alpha1.Baseline
}

// Clones is nil unless instances of the kind are copies of workloads.
func (s *Scope) Clones() *CloneWords { return s.settings.Clones }

// Components are the names of the parts that the tenant gives the instance; none unless its kind has copies of workloads.
func (s *Scope) Components() (names []string) {
	if s.settings.Clones == nil {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(s.object.Object, "spec", s.settings.Clones.Fields.From)
	for _, item := range list {
		fields, _ := item.(map[string]any)
		if name, ok := fields["name"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// Baseline is the one whose workloads the instance is of; nil if its kind has no copies. The error is a
// *baseline.NotFoundError. The scope has to be a Protected one: before, the path of the workspace is not known.
func (s *Scope) Baseline() (*sandbarv1alpha1.Baseline, error) {
	if s.settings.Clones == nil {
		return nil, nil
	}
	name, _, _ := unstructured.NestedString(s.object.Object, "spec", contract.BaselineRefField, "name")
	return baseline.Choose(s.settings.Clones.Baselines, name, s.object.GetNamespace(), s.workspacePath) //nolint:wrapcheck // it says what to do
}
