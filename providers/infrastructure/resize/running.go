// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// only is what of some resources can be changed in a running pod.
func only(all corev1.ResourceRequirements) corev1.ResourceRequirements {
	part := func(list corev1.ResourceList) corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, name := range resizable {
			if quantity, ok := list[name]; ok {
				out[name] = quantity
			}
		}
		return out
	}
	return corev1.ResourceRequirements{Requests: part(all.Requests), Limits: part(all.Limits)}
}

// Patch is what to ask the subresource resize of a pod for: a strategic merge patch; nil if its spec says it already.
func Patch(pod *corev1.Pod, wish Wish) ([]byte, error) {
	type container struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	differing := func(containers []corev1.Container) (out []container) {
		for i := range containers {
			wanted, ok := wish[containers[i].Name]
			if ok && !asks(containers[i].Resources, wanted) {
				out = append(out, container{containers[i].Name, only(wanted)})
			}
		}
		return out
	}
	var sidecars []corev1.Container
	for _, c := range resizableContainers(&corev1.PodSpec{InitContainers: pod.Spec.InitContainers}) {
		sidecars = append(sidecars, *c)
	}
	spec := map[string]any{}
	if changed := differing(sidecars); len(changed) > 0 {
		spec["initContainers"] = changed
	}
	if changed := differing(pod.Spec.Containers); len(changed) > 0 {
		spec["containers"] = changed
	}
	if len(spec) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return nil, fmt.Errorf("encoding the resize of pod %s: %w", pod.Name, err)
	}
	return data, nil
}

// asks reports whether resources are those that are wanted, as far as they can be changed.
func asks(are, wanted corev1.ResourceRequirements) bool {
	same := func(are, wanted corev1.ResourceList) bool {
		for _, name := range resizable {
			quantity, has := are[name]
			want, wants := wanted[name]
			if wants && (!has || quantity.Cmp(want) != 0) {
				return false
			}
		}
		return true
	}
	return same(are.Requests, wanted.Requests) && same(are.Limits, wanted.Limits)
}

// Of are the resources of a running pod's containers, as far as they can be changed: what to give it back.
func Of(pod *corev1.Pod) Wish {
	all := Wish{}
	for _, c := range resizableContainers(&pod.Spec) {
		all[c.Name] = only(c.Resources)
	}
	return all
}

// Sum is what the containers of a pod have together, for people.
func (w Wish) Sum() corev1.ResourceRequirements {
	sum := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, one := range w {
		part := only(one)
		add(sum.Requests, part.Requests)
		add(sum.Limits, part.Limits)
	}
	return sum
}

func add(sum, part corev1.ResourceList) {
	for name, quantity := range part {
		total := sum[name]
		if total.IsZero() {
			total = resource.Quantity{Format: quantity.Format}
		}
		total.Add(quantity)
		sum[name] = total
	}
}

// Progress is how far the kubelet is with what a pod's spec asks for.
type Progress int

// Values of Progress.
const (
	// Waits: the kubelet has not said anything yet, or has no room now and goes on trying.
	Waits Progress = iota
	// Admitted: the node has the room, and the containers are about to get it.
	Admitted
	// Done: the containers have it.
	Done
	// Infeasible: the node never has the room.
	Infeasible
)

// ProgressOf reads how far the kubelet is, and why it is not further, in its own words.
func ProgressOf(pod *corev1.Pod) (Progress, string) {
	// With both, the one in progress is of an earlier wish.
	if pending := conditionOf(pod, corev1.PodResizePending); pending != nil {
		if pending.Reason == corev1.PodReasonInfeasible {
			return Infeasible, pending.Message
		}
		return Waits, pending.Message
	}
	if progress := conditionOf(pod, corev1.PodResizeInProgress); progress != nil {
		return Admitted, progress.Message
	}
	// A kubelet of before Kubernetes 1.34 does not say what it has seen, and then its word on the containers has to do.
	seen := pod.Status.ObservedGeneration
	if seen != 0 && seen < pod.Generation || seen == 0 && !applied(pod) {
		return Waits, ""
	}
	return Done, ""
}

// conditionOf is a condition that is true of the pod's present spec; nil if there is none.
func conditionOf(pod *corev1.Pod, name corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == name && c.Status == corev1.ConditionTrue && (c.ObservedGeneration == 0 || c.ObservedGeneration >= pod.Generation) {
			return c
		}
	}
	return nil
}

// applied reports whether each container has what the spec asks for, by the kubelet's word.
func applied(pod *corev1.Pod) bool {
	statuses := map[string]*corev1.ResourceRequirements{}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			statuses[list[i].Name] = list[i].Resources
		}
	}
	for _, c := range resizableContainers(&pod.Spec) {
		if has := statuses[c.Name]; has == nil || !asks(*has, c.Resources) {
			return false
		}
	}
	return true
}
