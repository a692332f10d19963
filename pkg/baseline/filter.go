// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Filter is the part of a Baseline that chooses objects of its namespaces.
type Filter struct {
	selector labels.Selector
	names    []string
}

// Filters returns the Filter of a Baseline's workloads and that of its Services. The error names the field and what is
// wrong with it.
func Filters(spec *sandbarv1alpha1.BaselineSpec) (workloads, services Filter, err error) {
	if workloads, err = newFilter("spec.workloads", spec.Workloads.Selector, spec.Workloads.Names); err != nil {
		return workloads, services, err
	}
	services, err = newFilter("spec.services", spec.Services.Selector, spec.Services.Names)
	return workloads, services, err
}

func newFilter(field string, selector *metav1.LabelSelector, names []string) (Filter, error) {
	f := Filter{selector: labels.Everything(), names: names}
	if selector == nil {
		return f, nil
	}
	var err error
	if f.selector, err = metav1.LabelSelectorAsSelector(selector); err != nil {
		return f, fmt.Errorf("%s.selector: %w", field, err)
	}
	return f, nil
}

// Admits reports whether the filter lets an object with a name and labels through. The zero Filter lets none, and none lets through
// what Sandbar has made for proxies.
func (f Filter) Admits(name string, of map[string]string) bool {
	return f.selector != nil && of[placement.LabelIntercepts] == "" && (len(f.names) == 0 || slices.Contains(f.names, name)) && f.selector.Matches(labels.Set(of))
}

// Absent returns the names of the filter that none of the found has.
func (f Filter) Absent(found []string) []string {
	var missing []string
	for _, name := range f.names {
		if !slices.Contains(found, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// Kinds are the kinds of workloads that a Baseline may have, in their order.
func Kinds(spec *sandbarv1alpha1.BaselineSpec) []sandbarv1alpha1.BaselineWorkloadKind {
	if len(spec.Workloads.Kinds) == 0 {
		return sandbarv1alpha1.BaselineWorkloadKinds
	}
	var kinds []sandbarv1alpha1.BaselineWorkloadKind
	for _, kind := range sandbarv1alpha1.BaselineWorkloadKinds {
		if slices.Contains(spec.Workloads.Kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
