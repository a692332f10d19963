// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"cmp"
	"encoding/json"
	"slices"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	decide "github.com/sandbar-dev/sandbar/pkg/baseline"
)

// choice is what of the namespaces belongs to a Baseline.
type choice struct {
	workloads []sandbarv1alpha1.BaselineWorkload
	services  []sandbarv1alpha1.BaselineService
	// absent are the names of the spec that no workload or Service has.
	absentWorkloads, absentServices []string
}

// choose takes from the views what the filters let through, in an order that does not depend on that of events.
func choose(spec *sandbarv1alpha1.BaselineSpec, views map[string]view, ofWorkloads, ofServices decide.Filter) (c choice) {
	var workloadNames, serviceNames []string
	for _, namespace := range spec.Namespaces {
		v := views[namespace.Name]
		for _, kind := range decide.Kinds(spec) {
			for _, i := range byName(v.workloads[kind]) {
				if ofWorkloads.Admits(i.Name, i.Labels) {
					workloadNames = append(workloadNames, i.Name)
					c.workloads = append(c.workloads, sandbarv1alpha1.BaselineWorkload{
						Kind: kind, Namespace: namespace.Name, Name: i.Name, Replicas: i.replicas, Containers: v.containersOf(i),
					})
				}
			}
		}
		for _, i := range byName(v.services) {
			if ofServices.Admits(i.Name, i.Labels) {
				serviceNames = append(serviceNames, i.Name)
				c.services = append(c.services, sandbarv1alpha1.BaselineService{Namespace: namespace.Name, Name: i.Name, Ports: i.ports})
			}
		}
	}
	c.absentWorkloads, c.absentServices = ofWorkloads.Absent(workloadNames), ofServices.Absent(serviceNames)
	return c
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
