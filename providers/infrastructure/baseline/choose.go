// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// choice is what of the namespaces belongs to a Baseline.
type choice struct {
	workloads []sandbarv1alpha1.BaselineWorkload
	services  []sandbarv1alpha1.BaselineService
	// absent are the names of the spec that no workload or Service has.
	absentWorkloads, absentServices []string
}

// filter is the part of a spec that chooses objects.
type filter struct {
	selector labels.Selector
	names    []string
}

func newFilter(field string, selector *metav1.LabelSelector, names []string) (filter, error) {
	f := filter{selector: labels.Everything(), names: names}
	if selector == nil {
		return f, nil
	}
	var err error
	if f.selector, err = metav1.LabelSelectorAsSelector(selector); err != nil {
		return f, fmt.Errorf("%s.selector: %w", field, err)
	}
	return f, nil
}

// admits reports whether the filter lets an object through.
func (f filter) admits(i *item) bool {
	return (len(f.names) == 0 || slices.Contains(f.names, i.Name)) && f.selector.Matches(labels.Set(i.Labels))
}

// absent returns the names of the filter that none of the found has.
func (f filter) absent(found []string) []string {
	var missing []string
	for _, name := range f.names {
		if !slices.Contains(found, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// filters returns those of a Baseline's workloads and Services. The error names the field and what is wrong with it.
func filters(spec *sandbarv1alpha1.BaselineSpec) (workloads, services filter, err error) {
	if workloads, err = newFilter("spec.workloads", spec.Workloads.Selector, spec.Workloads.Names); err != nil {
		return workloads, services, err
	}
	services, err = newFilter("spec.services", spec.Services.Selector, spec.Services.Names)
	return workloads, services, err
}

// choose takes from the views what the filters let through, in an order that does not depend on that of events.
func choose(spec *sandbarv1alpha1.BaselineSpec, views map[string]view, ofWorkloads, ofServices filter) (c choice) {
	var workloadNames, serviceNames []string
	for _, namespace := range spec.Namespaces {
		v := views[namespace.Name]
		for _, kind := range kindsOf(spec) {
			for _, i := range byName(v.workloads[kind]) {
				if ofWorkloads.admits(i) {
					workloadNames = append(workloadNames, i.Name)
					c.workloads = append(c.workloads, sandbarv1alpha1.BaselineWorkload{
						Kind: kind, Namespace: namespace.Name, Name: i.Name, Replicas: i.replicas, Containers: v.containersOf(i),
					})
				}
			}
		}
		for _, i := range byName(v.services) {
			if ofServices.admits(i) {
				serviceNames = append(serviceNames, i.Name)
				c.services = append(c.services, sandbarv1alpha1.BaselineService{Namespace: namespace.Name, Name: i.Name, Ports: i.ports})
			}
		}
	}
	c.absentWorkloads, c.absentServices = ofWorkloads.absent(workloadNames), ofServices.absent(serviceNames)
	return c
}

// kindsOf are the kinds of workloads that a Baseline may have, in their order.
func kindsOf(spec *sandbarv1alpha1.BaselineSpec) []sandbarv1alpha1.BaselineWorkloadKind {
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

// containersOf returns the containers of a workload: its own, or those of the Deployment that has a Rollout's template.
func (v view) containersOf(i *item) []sandbarv1alpha1.BaselineContainer {
	if i.template == "" {
		return i.containers
	}
	for _, d := range v.workloads[sandbarv1alpha1.BaselineDeployment] {
		if d.Name == i.template {
			return d.containers
		}
	}
	return nil
}

func byName(list []*item) []*item {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *item) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// into writes what was chosen into a status, as much as its bounds admit.
func (c choice) into(status *sandbarv1alpha1.BaselineStatus) {
	status.WorkloadsFound, status.ServicesFound = int32(len(c.workloads)), int32(len(c.services))
	bytes := sandbarv1alpha1.MaxBaselineStatusBytes
	status.Workloads = within(c.workloads, sandbarv1alpha1.MaxBaselineWorkloads, &bytes)
	status.Services = within(c.services, sandbarv1alpha1.MaxBaselineServices, &bytes)
}

// within returns the first of a list: as many as there may be, and as fit into the bytes that are left.
func within[T any](list []T, most int, bytes *int) []T {
	for i := range list {
		encoded, err := json.Marshal(list[i])
		if i == most || err != nil || len(encoded) > *bytes {
			return slices.Clip(list[:i])
		}
		*bytes -= len(encoded)
	}
	return list
}
