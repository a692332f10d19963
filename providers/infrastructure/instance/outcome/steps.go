// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// podSteps are the steps of a pod in their order: which pods take a step, and when one did; zero while it has not.
var podSteps = []struct {
	name string
	of   func(*corev1.Pod) bool
	at   func(*corev1.Pod) time.Time
}{
	{sandbarv1alpha1.StepScheduled, everyPod, whenTrue(corev1.PodScheduled)},
	{sandbarv1alpha1.StepReadyToStartContainers, everyPod, whenTrue(corev1.PodReadyToStartContainers)},
	{sandbarv1alpha1.StepInitialized, hasInitContainers, whenTrue(corev1.PodInitialized)},
	{sandbarv1alpha1.StepStarted, everyPod, containersStarted},
	{sandbarv1alpha1.StepPodReady, everyPod, whenTrue(corev1.PodReady)},
}

// stepsOf returns the steps that all pods have taken which take them, each with the time of the last one.
func stepsOf(pods []*corev1.Pod) []sandbarv1alpha1.InstanceStartStep {
	var steps []sandbarv1alpha1.InstanceStartStep
	for _, step := range podSteps {
		last, taken := time.Time{}, true
		for _, pod := range pods {
			if !step.of(pod) {
				continue
			}
			at := step.at(pod)
			taken = taken && !at.IsZero()
			if at.After(last) {
				last = at
			}
		}
		if taken && !last.IsZero() {
			steps = append(steps, sandbarv1alpha1.InstanceStartStep{Name: step.name, Time: metav1.NewTime(last)})
		}
	}
	return steps
}

func everyPod(*corev1.Pod) bool { return true }

// hasInitContainers goes by the statuses: the cache keeps nothing of the spec. Of a pod without init containers the
// kubelet says at once that they have ended.
func hasInitContainers(pod *corev1.Pod) bool { return len(pod.Status.InitContainerStatuses) > 0 }

func whenTrue(name corev1.PodConditionType) func(*corev1.Pod) time.Time {
	return func(pod *corev1.Pod) time.Time {
		if condition := podCondition(pod, name); condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
		return time.Time{}
	}
}

// containersStarted is when the last container was started; zero if one was not yet, or waits to be started again.
func containersStarted(pod *corev1.Pod) time.Time {
	var last time.Time
	for _, status := range pod.Status.ContainerStatuses {
		var at time.Time
		switch state := status.State; {
		case state.Running != nil:
			at = state.Running.StartedAt.Time
		case state.Terminated != nil:
			at = state.Terminated.StartedAt.Time
		}
		if at.IsZero() {
			return time.Time{}
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}

// startOf keeps how the instance came to be, and notes its steps until it was first Ready, and when that was.
func startOf(o Outcome, old sandbarv1alpha1.InstanceStatus, ready bool) *sandbarv1alpha1.InstanceStart {
	start := cmp.Or(o.Start, old.Start)
	if start == nil || start.Times.Ready != nil {
		return start
	}
	start = start.DeepCopy()
	if o.Pods.Names != nil { // nil: its pods were not looked at
		start.Steps = since(start.Times, o.Pods.Steps)
	}
	if ready {
		start.Times.Ready = &metav1.MicroTime{Time: o.Now}
	}
	return start
}

// since leaves out what cannot be a step of this start. The pod of a warm one took its steps before it was the
// instance's, and the clocks of nodes differ: a time before that of the step which it follows says nothing. A step in the
// second in which a sandbox was taken may have come before that.
func since(times sandbarv1alpha1.InstanceStartTimes, steps []sandbarv1alpha1.InstanceStartStep) []sandbarv1alpha1.InstanceStartStep {
	var from time.Time
	for _, at := range []*metav1.MicroTime{times.Requested, times.Placed} {
		if at != nil && at.After(from) {
			from = at.Time
		}
	}
	var kept []sandbarv1alpha1.InstanceStartStep
	for _, step := range steps {
		if !step.Time.Time.Before(from) {
			kept, from = append(kept, step), step.Time.Time
		}
	}
	return kept
}

// SaysTheSame reports whether two statuses differ in nothing, or only in the steps of the start: these are written with
// the change that comes next, and at the latest with Ready. A write for each would cost every start three.
func SaysTheSame(one, other map[string]any) bool {
	return equality.Semantic.DeepEqual(withoutSteps(one), withoutSteps(other))
}

func withoutSteps(status map[string]any) map[string]any {
	start, ok := status["start"].(map[string]any)
	if !ok {
		return status
	}
	status, start = maps.Clone(status), maps.Clone(start)
	delete(start, "steps")
	status["start"] = start
	return status
}
