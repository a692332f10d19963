// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"fmt"

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

// Components are the names of the parts that the tenant gives the instance: copies of workloads, its own or those of its part.
func (s *Scope) Components() []string {
	switch {
	case s.settings.Clones != nil:
		return NamesIn(s.object, s.settings.Clones.Fields.From)
	case s.settings.Compound.Has(s.object):
		return NamesIn(s.object, s.settings.Compound.Fields.From)
	}
	return nil
}

// NamesIn are the names of the entries of a list in the spec of an object.
func NamesIn(obj *unstructured.Unstructured, field string) (names []string) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "spec", field)
	for _, item := range list {
		fields, _ := item.(map[string]any)
		if name, ok := fields["name"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// MadeFor is what a placement of copies says of itself: what the provider has written on its Namespace.
type MadeFor struct {
	// Baseline is the name of the one whose copies the placement has, or will get; empty until one was found. It never changes.
	Baseline string
	// PodSecurity is the level that the Namespace enforces; empty while there is no Namespace.
	PodSecurity string
}

// MadeFor is the scope of the same instance once its Namespace has been read. It is for kinds that have copies.
func (s *Scope) MadeFor(made MadeFor) *Scope {
	of := *s
	of.madeFor = made
	return &of
}

// BaselineChangedError says that an object means another Baseline than the one that its placement was made for.
type BaselineChangedError struct {
	Former, Present string
}

func (e *BaselineChangedError) Error() string {
	return fmt.Sprintf("spec.baselineRef.name: the copies are of Baseline %s, and cannot become those of %s: set it to %s, or create another instance", e.Former, e.Present, e.Former)
}

// Baseline is the one whose workloads the instance is of; nil if its kind has no copies. The error is a
// *baseline.NotFoundError or a *BaselineChangedError. The scope has to be a Protected one with what its placement was MadeFor:
// before, neither the path of the workspace nor the former Baseline is known.
//
// The attack that a placement with one Baseline in its life prevents: a tenant has a privileged workload of a Baseline whose
// copies are not privileged, or a Secret that it does not share, and names another Baseline, which allows that for workloads of
// its own. What is left of the former copies would then run, and be rendered, by the rules of the latter.
func (s *Scope) Baseline() (*sandbarv1alpha1.Baseline, error) {
	if s.settings.Clones == nil {
		return nil, nil
	}
	name, _, _ := unstructured.NestedString(s.object.Object, "spec", contract.BaselineRefField, "name")
	b, err := s.choose(name)
	if err == nil && s.madeFor.Baseline != "" && b.Name != s.madeFor.Baseline {
		return nil, &BaselineChangedError{Former: s.madeFor.Baseline, Present: b.Name}
	}
	return b, err
}

// PlacementBaseline is the one that decides about the network and the pod security level of the placement, also when the object
// means another one: the copies that run are of it. It is nil if the kind has no copies, and while the workspace has not that Baseline.
func (s *Scope) PlacementBaseline() *sandbarv1alpha1.Baseline {
	if s.settings.Clones == nil {
		return nil
	}
	if s.madeFor.Baseline == "" {
		b, _ := s.Baseline() // an error is told where the copies are made
		return b
	}
	b, _ := s.choose(s.madeFor.Baseline)
	return b
}

// BaselineName is the name of the Baseline that the placement is, or will be, made for; empty until there is one.
func (s *Scope) BaselineName() string {
	if b := s.PlacementBaseline(); s.madeFor.Baseline == "" && b != nil {
		return b.Name
	}
	return s.madeFor.Baseline
}

func (s *Scope) choose(name string) (*sandbarv1alpha1.Baseline, error) {
	return baseline.Choose(s.settings.Clones.Baselines, name, s.object.GetNamespace(), s.workspacePath) //nolint:wrapcheck // it says what to do
}
