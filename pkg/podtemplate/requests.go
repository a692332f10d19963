// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// checkRequests refuses a pod that can never start, because its containers request more together than the
// quota of its placement has. The API server would say that the quota has no room, and the pod would wait.
func checkRequests(spec *corev1.PodSpec, bounds *Bounds) []string {
	var problems []string
	requested := requestsOf(spec, bounds)
	for _, name := range slices.Sorted(maps.Keys(bounds.Requests)) {
		asked, most := requested[name], bounds.Requests[name]
		if asked.Cmp(most) > 0 {
			problems = append(problems, fmt.Sprintf(
				"spec.containers: request %s of %s together, and the quota of a pod's namespace is %s; request less (a limit without a request counts as one), or ask the operator for more (spec.quota.hard[%s])",
				asked.String(), name, most.String(), corev1.DefaultResourceRequestsPrefix+string(name)))
		}
	}
	return problems
}

// requestsOf is what a quota counts of a pod: its containers' requests as they will be. The API server takes
// a limit without a request for both, and then fills in the defaults of the namespace.
func requestsOf(spec *corev1.PodSpec, bounds *Bounds) corev1.ResourceList {
	pod := &corev1.Pod{Spec: *spec.DeepCopy()}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			of := &list[i].Resources
			requests := maps.Clone(bounds.Request)
			if requests == nil {
				requests = corev1.ResourceList{}
			}
			maps.Copy(requests, of.Limits)
			maps.Copy(requests, of.Requests)
			of.Requests = requests
		}
	}
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}
