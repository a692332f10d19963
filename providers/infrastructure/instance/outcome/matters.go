// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// PodMatters tells whether a change of a pod can change an instance's status. The kubelet
// writes much more than that: heartbeats of probes, addresses, times.
func PodMatters(before, after any) bool {
	old, ok := before.(*corev1.Pod)
	pod, also := after.(*corev1.Pod)
	if !ok || !also {
		return true
	}
	return !maps.Equal(gist(old), gist(pod))
}

// gist is what of a pod an instance's status is made of.
func gist(pod *corev1.Pod) map[string]string {
	said := map[string]string{"phase": string(pod.Status.Phase), "reason": pod.Status.Reason}
	if pod.DeletionTimestamp != nil {
		said["deleting"] = "true"
	}
	for _, name := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled} {
		condition := podCondition(pod, name)
		said[string(name)] = string(condition.Status)
	}
	for _, name := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		if condition := podCondition(pod, name); condition.Status == corev1.ConditionTrue {
			said[string(name)] = condition.Reason
		}
	}
	said["seen"] = strconv.FormatInt(pod.Status.ObservedGeneration, 10) // a pod's spec changes by a resize alone
	if c := unscheduled(pod); c != nil {
		said["unscheduled"] = c.Reason // the scheduler's first verdict need not be its last
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			said["container/"+status.Name] = fmt.Sprint(status.RestartCount, status.Ready, stateOf(status.State))
		}
	}
	return said
}

// stateOf names a container's state. The two reasons that alternate while an image is not
// pulled are one.
func stateOf(state corev1.ContainerState) string {
	switch {
	case state.Waiting != nil && state.Waiting.Reason == "ImagePullBackOff":
		return "ErrImagePull"
	case state.Waiting != nil:
		return state.Waiting.Reason
	case state.Running != nil:
		return "running"
	case state.Terminated != nil:
		return fmt.Sprint("terminated ", state.Terminated.ExitCode)
	}
	return ""
}

// PodServes reports whether a pod is ready, and is not about to go.
func PodServes(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && podCondition(pod, corev1.PodReady).Status == corev1.ConditionTrue &&
		podCondition(pod, corev1.DisruptionTarget).Status != corev1.ConditionTrue
}
