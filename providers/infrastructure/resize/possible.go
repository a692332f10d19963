// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/util/qos"
)

// Wish are the resources that containers of a pod are to have, by their names. Containers that are not in it keep theirs.
type Wish map[string]corev1.ResourceRequirements

// Defaults are what a container gets that names none, as the LimitRange of its namespace says.
type Defaults struct{ Request, Limit corev1.ResourceList }

// resizable are the resources that Kubernetes changes in a running pod.
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Written are the resources of all containers of a pod as they are written.
func Written(spec *corev1.PodSpec) Wish {
	all := Wish{}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			all[containers[i].Name] = containers[i].Resources
		}
	}
	return all
}

// Put gives the containers of a pod the resources that they are to have.
func (w Wish) Put(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if wanted, ok := w[containers[i].Name]; ok {
				containers[i].Resources = *wanted.DeepCopy()
			}
		}
	}
}

// Completed are the resources as the API server completes them: a limit without a request counts as both, and then come the
// defaults of the namespace.
func (w Wish) Completed(defaults Defaults) Wish {
	all := Wish{}
	for name, written := range w {
		requests, limits := maps.Clone(defaults.Request), maps.Clone(defaults.Limit)
		if requests == nil {
			requests = corev1.ResourceList{}
		}
		if limits == nil {
			limits = corev1.ResourceList{}
		}
		maps.Copy(requests, written.Limits)
		maps.Copy(requests, written.Requests)
		maps.Copy(limits, written.Limits)
		all[name] = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	}
	return all
}

// ImpossibleError says why a running pod cannot get other resources without a restart.
type ImpossibleError struct {
	// Class is set if the pod's QoS class would be another one.
	Class bool
	// Problem begins with the field of the pod.
	Problem string
}

func (e *ImpossibleError) Error() string { return e.Problem }

// Possible reports whether a pod like from, once it runs, can get the resources of its template in place. The error is an
// *ImpossibleError if it cannot. Containers that only one of the two has keep what they have.
func Possible(from *corev1.PodSpec, template Wish, defaults Defaults) error {
	to := from.DeepCopy()
	template.Put(to)
	was, wanted := Written(from).Completed(defaults), Written(to).Completed(defaults)
	for _, c := range resizableContainers(from) {
		if problem := change(c, was[c.Name], wanted[c.Name]); problem != "" {
			return &ImpossibleError{Problem: "containers " + c.Name + ": " + problem}
		}
	}
	if before, after := classOf(from, was), classOf(to, wanted); before != after {
		return &ImpossibleError{Class: true, Problem: fmt.Sprintf("the QoS class is %s and would become %s", before, after)}
	}
	return nil
}

// resizableContainers are those that run as long as their pod does: no other init container can be resized, and none needs it.
func resizableContainers(spec *corev1.PodSpec) []*corev1.Container {
	var all []*corev1.Container
	for i := range spec.InitContainers {
		if policy := spec.InitContainers[i].RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			all = append(all, &spec.InitContainers[i])
		}
	}
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i])
	}
	return all
}

// change says why the resources of a container cannot be changed without a restart; empty if they can.
func change(c *corev1.Container, was, wanted corev1.ResourceRequirements) string {
	for _, lists := range [][2]corev1.ResourceList{{was.Requests, wanted.Requests}, {was.Limits, wanted.Limits}} {
		names := slices.Sorted(maps.Keys(lists[0]))
		for name := range lists[1] {
			if _, ok := lists[0][name]; !ok {
				names = append(names, name)
			}
		}
		for _, name := range names {
			before, had := lists[0][name]
			after, has := lists[1][name]
			switch {
			case had && has && before.Cmp(after) == 0:
			case !slices.Contains(resizable, name):
				return fmt.Sprintf("%s of a running pod cannot change, only cpu and memory can", name)
			case !has:
				return fmt.Sprintf("%s of a running pod cannot be taken away", name)
			case restartsFor(c, name):
				return fmt.Sprintf("resizePolicy has it restarted when its %s changes", name)
			}
		}
	}
	return ""
}

func restartsFor(c *corev1.Container, name corev1.ResourceName) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.ResourceName == name && p.RestartPolicy == corev1.RestartContainer
	})
}

// classOf is the QoS class of a pod with these resources, which Kubernetes never changes.
func classOf(spec *corev1.PodSpec, resources Wish) corev1.PodQOSClass {
	pod := &corev1.Pod{Spec: *spec.DeepCopy()}
	resources.Put(&pod.Spec)
	return qos.ComputePodQOS(pod)
}
