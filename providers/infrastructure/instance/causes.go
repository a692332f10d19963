// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of Composed that name what keeps an instance from being ready.
const (
	reasonImage        = "ImageNotPullable"
	reasonNotStartable = "ContainerNotStartable"
	reasonCrashLoop    = "CrashLoop"
	reasonUnready      = "ProbeFailing"
	reasonPodFailed    = "PodFailed"
	reasonNoRoom       = "NoNodeHasRoom"
	reasonQuota        = "QuotaExceeded"
	reasonVolume       = "VolumeNotReady"
	reasonPodRefused   = "PodRefused"
	reasonRuntimeClass = "RuntimeClassMissing"
	reasonNoSandbox    = "PodNotStartable"
)

const (
	// maxDetail bounds, in bytes, what a message quotes of the runtime cluster.
	maxDetail = 512

	// crashLoopFrom restarts make a container one that crashes. It counts as ready again after
	// it has run for settleTime: without that, a container that crashes a second after its
	// start would be called ready and not ready in turn for as long as it lives.
	crashLoopFrom = 2
	settleTime    = 30 * time.Second

	// probeTime is how long a container may run before its failing readiness probe is called
	// the cause; until then it is starting.
	probeTime = time.Minute
)

// cause is what keeps an instance from being ready, with its remedy.
type cause struct {
	reason, message string
	// capacity: there is no room now, and it starts as soon as there is.
	capacity bool
	// failing: it does not mend itself. Neither means that it is being tried.
	failing bool
	// job: it is a Job's, without which what is complete can be used.
	job bool
}

// podSummary is what the pods of a placement say together.
type podSummary struct {
	// present pods should serve; ready ones do.
	present, ready int
	// releasing pods are on their way out, or are a Job's: they keep a suspension from being
	// complete and nothing else.
	releasing int
	// cause is the first that a pod names, by the pods' names; those of Jobs come last.
	cause *cause
	// names are those of the present pods.
	names map[string]bool
	// recheck is when time alone changes this summary; zero means never.
	recheck time.Duration
}

func summarize(pods []corev1.Pod, now time.Time) podSummary {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	sum := podSummary{names: map[string]bool{}}
	for i := range pods {
		pod := &pods[i]
		controller := controllerKind(pod)
		switch {
		case pod.DeletionTimestamp != nil:
			sum.releasing++
			continue
		case pod.Status.Phase == corev1.PodSucceeded,
			// Another pod takes its place; evicted ones may lie about for long.
			pod.Status.Phase == corev1.PodFailed && controller != "":
			continue
		case controller == "Job":
			sum.releasing++
		default:
			sum.present++
		}
		sum.names[pod.Name] = true
		c, recheck := causeOf(pod, now)
		if c == nil && controller != "Job" && podReady(pod).Status == corev1.ConditionTrue {
			sum.ready++
		}
		if c != nil && controller == "Job" {
			c.job = true
		}
		if c != nil && (sum.cause == nil || sum.cause.job) {
			sum.cause = c
		}
		if recheck > 0 && (sum.recheck == 0 || recheck < sum.recheck) {
			sum.recheck = recheck
		}
	}
	return sum
}

// controllerKind is the kind of what replaces the pod when it goes; empty for a bare pod.
func controllerKind(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Kind
	}
	return ""
}

func podReady(pod *corev1.Pod) corev1.PodCondition { return podCondition(pod, corev1.PodReady) }

func podCondition(pod *corev1.Pod, name corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == name {
			return condition
		}
	}
	return corev1.PodCondition{}
}

// causeOf tells why a pod is not ready, or nil while it is ready or merely starting, and after
// which time to ask again although nothing of the pod changes.
func causeOf(pod *corev1.Pod, now time.Time) (*cause, time.Duration) {
	if pod.Status.Phase == corev1.PodFailed {
		return &cause{reason: reasonPodFailed, failing: true, message: fmt.Sprintf(
			"a pod has failed: %s; change the spec, or suspend and resume the instance, to have a new one",
			detail(pod.Status.Reason+" "+pod.Status.Message))}, 0
	}
	if c := unscheduled(pod); c != nil {
		return c, 0
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if c, recheck := causeOfContainer(&statuses[i], now); c != nil {
				return c, recheck
			}
		}
	}
	return probing(pod, now)
}

// unscheduled tells why the scheduler finds no node. An error of the scheduler itself, which it
// mends by trying again, says nothing of the nodes; nor does a claim that it does not know yet,
// as is usual right after the claim was made. It writes "persistentvolumeclaim" both ways.
func unscheduled(pod *corev1.Pod) *cause {
	scheduled := podCondition(pod, corev1.PodScheduled)
	if scheduled.Status != corev1.ConditionFalse {
		return nil
	}
	if strings.Contains(strings.ToLower(scheduled.Message), "persistentvolumeclaim") {
		return &cause{reason: reasonVolume, message: "a pod waits for its volume: " + detail(scheduled.Message) +
			"; the operator has to see to the runtime cluster's storage if this lasts"}
	}
	if scheduled.Reason == corev1.PodReasonSchedulerError {
		return &cause{reason: reasonNoSandbox, message: "the runtime cluster's scheduler failed and tries again: " +
			detail(scheduled.Message) + "; the operator has to see to it if this lasts"}
	}
	return &cause{reason: reasonNoRoom, capacity: true, message: "no node of the runtime cluster has room for a pod: " +
		detail(scheduled.Message) + "; ask for less, or for more nodes. It starts as soon as there is room"}
}

func causeOfContainer(status *corev1.ContainerStatus, now time.Time) (*cause, time.Duration) {
	switch state := status.State; {
	case state.Waiting != nil:
		return waiting(status, state.Waiting), 0
	case state.Terminated != nil && (state.Terminated.ExitCode != 0 || status.RestartCount > 0) && !status.Ready:
		return crashed(status, state.Terminated), 0
	case state.Running != nil && status.RestartCount >= crashLoopFrom && status.LastTerminationState.Terminated != nil:
		if left := settleTime - now.Sub(state.Running.StartedAt.Time); left > 0 {
			return crashed(status, status.LastTerminationState.Terminated), left
		}
	}
	return nil, 0
}

func waiting(status *corev1.ContainerStatus, state *corev1.ContainerStateWaiting) *cause {
	switch state.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
		"SignatureValidationFailed":
		return &cause{reason: reasonImage, failing: true, message: fmt.Sprintf(
			"the image %s of container %s cannot be pulled (%s): %s; correct its name, or give the runtime cluster access to its registry",
			detail(status.Image), status.Name, state.Reason, detail(state.Message))}
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError", "PostStartHookError":
		return &cause{reason: reasonNotStartable, failing: true, message: fmt.Sprintf(
			"container %s cannot be started (%s): %s; correct what it refers to, or its command", status.Name, state.Reason, detail(state.Message))}
	case "CrashLoopBackOff":
		last := status.LastTerminationState.Terminated
		if last == nil {
			last = &corev1.ContainerStateTerminated{}
		}
		return crashed(status, last)
	}
	return nil
}

// crashed does not quote the message that a container left: it is written by the program, or is
// the end of its output, and may hold what only those may read who may read its log. The
// runtime's own message, for a program that could not even be started, is quoted.
func crashed(status *corev1.ContainerStatus, last *corev1.ContainerStateTerminated) *cause {
	said := fmt.Sprintf("exit code %d", last.ExitCode)
	remedy := "its log tells why"
	switch last.Reason {
	case "", "Error", "Completed":
	case "OOMKilled":
		said, remedy = "it needed more memory than its limit", "raise the limit or use less"
	case "StartError", "ContainerCannotRun":
		said, remedy = last.Reason+": "+detail(last.Message), "correct its command"
	default:
		said += ", " + detail(last.Reason)
	}
	return &cause{reason: reasonCrashLoop, failing: true, message: fmt.Sprintf(
		"container %s has ended and is started again and again (%d restarts so far; the last time: %s); %s",
		status.Name, status.RestartCount, said, remedy)}
}

// probing looks at a pod whose containers run: one that was ready before, or has had a minute
// to become it, fails its readiness probe.
func probing(pod *corev1.Pod, now time.Time) (*cause, time.Duration) {
	ready := podReady(pod)
	if ready.Status == corev1.ConditionTrue || len(pod.Status.ContainerStatuses) == 0 {
		return nil, 0
	}
	var unready string
	var started time.Time
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running == nil {
			return nil, 0
		}
		if !status.Ready && unready == "" {
			unready = status.Name
		}
		if status.State.Running.StartedAt.After(started) {
			started = status.State.Running.StartedAt.Time
		}
	}
	wasReady := ready.LastTransitionTime.After(started)
	if left := probeTime - now.Sub(started); !wasReady && left > 0 {
		return nil, left
	}
	return &cause{reason: reasonUnready, failing: true, message: fmt.Sprintf(
		"container %s runs and does not report that it is ready; its log tells why", cmp.Or(unready, "(unknown)"))}, 0
}

// detail makes a text of the runtime cluster fit to be quoted in a message.
func detail(text string) string {
	return shortened(strings.Trim(oneLine(text), " .;"), maxDetail)
}

// oneLine is a text without line breaks and without what a terminal would obey: some of it is a
// tenant's, or a pod's, and kubectl prints it as it is.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
}
