// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Reasons of Composed that name what keeps an instance from being ready.
const (
	ReasonImage        = "ImageNotPullable"
	reasonNotStartable = "ContainerNotStartable"
	ReasonCrashLoop    = "CrashLoop"
	reasonUnready      = "ProbeFailing"
	reasonPodFailed    = "PodFailed"
	reasonNoRoom       = "NoNodeHasRoom"
	ReasonQuota        = "QuotaExceeded"
	ReasonVolume       = "VolumeNotReady"
	ReasonPodRefused   = "PodRefused"
	ReasonRuntimeClass = "RuntimeClassMissing"
	reasonNoSandbox    = "PodNotStartable"
	reasonNode         = "NodeNotReady"
	reasonStorageClass = "StorageClassMissing"
	// The operator's images, and what somebody deletes on the runtime cluster: operators.go.
	ReasonProviderImage = "ProviderImageNotPullable"
	ReasonBeingDeleted  = "ResourceBeingDeleted"
)

const (
	// MaxDetail bounds, in bytes, what a message quotes of the runtime cluster.
	MaxDetail = 512

	// CrashLoopFrom restarts make a container one that crashes. It counts as ready again after
	// it has run for settleTime: without that, a container that crashes a second after its
	// start would be called ready and not ready in turn for as long as it lives.
	CrashLoopFrom = 2
	settleTime    = 30 * time.Second

	// stuckAfter is how long after the end of its grace a pod is there because its node does not answer.
	stuckAfter = time.Minute

	// imageRemedy is what a tenant may do about an image of its own.
	imageRemedy = "; correct its name, or give the runtime cluster access to its registry"

	// probeTime is how long a container may run before its failing readiness probe is called
	// the cause; until then it is starting.
	probeTime = time.Minute
)

// Cause is what keeps an instance from being ready, with its remedy.
type Cause struct {
	Reason, Message string
	// capacity: there is no room now, and it starts as soon as there is.
	capacity bool
	// failing: it does not mend itself. Neither means that it is being tried.
	failing bool
	// loops: a container has been started again so often that it counts as one that crashes.
	loops bool
	// job: it is a Job's, without which what is complete can be used.
	job bool
	// image is the one that cannot be pulled; empty if it is not for an image.
	image string
	// Says is the container whose log may tell more; nil for none.
	Says *Speaker
}

// Waits reports whether the instance starts as soon as there is room for it.
func (c *Cause) Waits() bool { return c != nil && c.capacity }

// PodSummary is what the pods of a placement say together.
type PodSummary struct {
	// Present pods should serve; ready ones do.
	Present, Ready int
	// releasing pods are on their way out, or are a Job's: they keep a suspension from being
	// complete and nothing else.
	releasing int
	// Cause is the first that a pod names, by the pods' names; those of Jobs come last.
	Cause *Cause
	// stuck: a pod on its way out has been for too long.
	stuck bool
	// Names are those of the present pods.
	Names map[string]bool
	// Of are the pods of each component, by its name. Pods without the label are of none.
	Of map[string]ComponentPods
	// Develops are the pods of the DevSession of each component, by the component's name. They count nowhere else while they
	// should serve.
	Develops map[string]ComponentPods
	// Steps are those that all present pods have taken since they were created.
	Steps []sandbarv1alpha1.InstanceStartStep
	// Recheck is when time alone changes this summary; zero means never.
	Recheck time.Duration
}

// ComponentPods is what the pods of one component say together.
type ComponentPods struct {
	// Ready pods serve.
	Ready int32
	// Cause is the first that one of them names; nil if none does.
	Cause *Cause
}

// Summarize returns what the pods of a placement say together.
func Summarize(pods []corev1.Pod, now time.Time) PodSummary {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	sum, present := PodSummary{Names: map[string]bool{}, Of: map[string]ComponentPods{}, Develops: map[string]ComponentPods{}}, []*corev1.Pod(nil)
	for i := range pods {
		pod := &pods[i]
		controller := controllerKind(pod)
		switch {
		case pod.DeletionTimestamp != nil:
			sum.releasing++
			// Its deletion timestamp is the end of its grace.
			left := pod.DeletionTimestamp.Add(stuckAfter).Sub(now)
			sum.stuck, sum.Recheck = sum.stuck || left <= 0, Sooner(sum.Recheck, max(left, 0))
			continue
		case pod.Status.Phase == corev1.PodSucceeded,
			// Another pod takes its place; evicted ones may lie about for long.
			pod.Status.Phase == corev1.PodFailed && controller != "":
			continue
		case controller == "Job":
			sum.releasing++
		case pod.Labels[placement.LabelDevelops] != "":
			sum.Recheck = Sooner(sum.Recheck, sum.develops(pod, now))
			continue
		default:
			sum.Present++
			present = append(present, pod)
		}
		sum.Names[pod.Name] = true
		c, recheck := causeOf(pod, now)
		of := sum.Of[pod.Labels[placement.LabelComponent]]
		if c == nil && controller != "Job" && podReady(pod).Status == corev1.ConditionTrue {
			sum.Ready++
			of.Ready++
		}
		if of.Cause == nil {
			of.Cause = c
		}
		sum.Of[pod.Labels[placement.LabelComponent]] = of
		if c != nil && controller == "Job" {
			c.job = true
		}
		if c != nil && (sum.Cause == nil || sum.Cause.job) {
			sum.Cause = c
		}
		sum.Recheck = Sooner(sum.Recheck, recheck)
	}
	sum.Steps = stepsOf(present)
	return sum
}

// develops counts the pod of a DevSession, and returns after which time to ask again.
func (s *PodSummary) develops(pod *corev1.Pod, now time.Time) time.Duration {
	component := pod.Labels[placement.LabelDevelops]
	of := s.Develops[component]
	c, recheck := causeOf(pod, now)
	if c == nil && podReady(pod).Status == corev1.ConditionTrue {
		of.Ready++
	}
	if of.Cause == nil {
		of.Cause = c
	}
	s.Develops[component] = of
	return recheck
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
func causeOf(pod *corev1.Pod, now time.Time) (*Cause, time.Duration) {
	if pod.Status.Phase == corev1.PodFailed {
		return &Cause{Reason: reasonPodFailed, failing: true, Message: fmt.Sprintf(
			"a pod has failed: %s; change the spec, or suspend and resume the instance, to have a new one",
			Detail(pod.Status.Reason+" "+pod.Status.Message))}, 0
	}
	if c := unscheduled(pod); c != nil {
		return c, 0
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if c, recheck := causeOfContainer(&statuses[i], probed(pod, statuses[i].Name), now); c != nil {
				if c.Says != nil {
					c.Says.Pod = pod.Name
				}
				return c, recheck
			}
		}
	}
	return probing(pod, now)
}

// unscheduled tells why the scheduler finds no node. An error of the scheduler itself, which it
// mends by trying again, says nothing of the nodes; nor does a claim that it does not know yet,
// as is usual right after the claim was made. It writes "persistentvolumeclaim" both ways.
func unscheduled(pod *corev1.Pod) *Cause {
	scheduled := podCondition(pod, corev1.PodScheduled)
	if scheduled.Status != corev1.ConditionFalse {
		return nil
	}
	if strings.Contains(strings.ToLower(scheduled.Message), "persistentvolumeclaim") {
		return &Cause{Reason: ReasonVolume, Message: "a pod waits for its volume: " + Detail(scheduled.Message) +
			"; the operator has to see to the runtime cluster's storage if this lasts"}
	}
	if scheduled.Reason == corev1.PodReasonSchedulerError {
		return &Cause{Reason: reasonNoSandbox, Message: "the runtime cluster's scheduler failed and tries again: " +
			Detail(scheduled.Message) + "; the operator has to see to it if this lasts"}
	}
	if nodeAway(scheduled.Message) {
		return nodeNotReady()
	}
	return &Cause{Reason: reasonNoRoom, capacity: true, Message: "no node of the runtime cluster has room for a pod" + requesting(pod) + ": " +
		Detail(scheduled.Message) + "; ask for less, or for more nodes. It starts as soon as there is room"}
}

// requesting says how much a pod requests, which the scheduler does not: somebody who asks for more than any
// node has sees it there.
func requesting(pod *corev1.Pod) string {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	parts := make([]string, 0, len(requests))
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if quantity := requests[name]; !quantity.IsZero() {
			parts = append(parts, quantity.String()+" of "+string(name))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " that requests " + strings.Join(parts, ", ")
}

// nodeAway reports whether the scheduler passes a node over that does not answer: it names the taints
// that Kubernetes gives such nodes.
func nodeAway(message string) bool {
	return strings.Contains(message, corev1.TaintNodeUnreachable) || strings.Contains(message, corev1.TaintNodeNotReady)
}

func nodeNotReady() *Cause {
	return &Cause{Reason: reasonNode, failing: true, Message: "a node of the runtime cluster does not answer, and the pod is or was to be on it; " +
		"the operator has to see to it. It goes on by itself when the node answers"}
}

// probed reports whether a container has a readiness probe: then it is ready as soon as that says so.
func probed(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container && c.ReadinessProbe != nil })
}

// settles is how long a container that has been restarted must run before it counts as ready. Without a
// readiness probe a program is called ready whenever it begins, also for the moment until it crashes
// again.
func settles(restarts int32, probed bool) time.Duration {
	switch {
	case restarts >= CrashLoopFrom:
		return settleTime
	case restarts > 0 && !probed:
		return momentTime
	}
	return 0
}

func causeOfContainer(status *corev1.ContainerStatus, probed bool, now time.Time) (*Cause, time.Duration) {
	switch state := status.State; {
	case state.Waiting != nil:
		return waiting(status, state.Waiting), 0
	case state.Terminated != nil && (state.Terminated.ExitCode != 0 || status.RestartCount > 0) && !status.Ready:
		return crashed(status, state.Terminated), 0
	case state.Running != nil && status.LastTerminationState.Terminated != nil:
		if left := settles(status.RestartCount, probed) - now.Sub(state.Running.StartedAt.Time); left > 0 {
			return crashed(status, status.LastTerminationState.Terminated), left
		}
	}
	return nil, 0
}

func waiting(status *corev1.ContainerStatus, state *corev1.ContainerStateWaiting) *Cause {
	switch state.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
		"SignatureValidationFailed":
		return &Cause{Reason: ReasonImage, failing: true, image: status.Image, Message: fmt.Sprintf(
			"the image %s of container %s cannot be pulled (%s): %s%s",
			Detail(status.Image), status.Name, state.Reason, Detail(state.Message), imageRemedy)}
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError", "PostStartHookError":
		return &Cause{Reason: reasonNotStartable, failing: true, Message: fmt.Sprintf(
			"container %s cannot be started (%s): %s; correct what it refers to, or its command", status.Name, state.Reason, Detail(state.Message))}
	case "CrashLoopBackOff":
		last := status.LastTerminationState.Terminated
		if last == nil {
			last = &corev1.ContainerStateTerminated{}
		}
		return crashed(status, last)
	}
	return nil
}

// crashed tells how a container ended; its log may tell more (observeLastWords). The runtime's own
// message, for a program that could not even be started, is quoted. Restarts are not counted in the
// message: a status would be written for each.
func crashed(status *corev1.ContainerStatus, last *corev1.ContainerStateTerminated) *Cause {
	said := fmt.Sprintf("exit code %d", last.ExitCode)
	remedy := "its log tells why"
	again := "has ended and is started again"
	loops := status.RestartCount >= CrashLoopFrom
	if loops {
		again += " and again"
	}
	switch last.Reason {
	case "", "Error", "Completed":
	case "OOMKilled":
		said, remedy = "it needed more memory than its limit", "raise the limit or use less"
	case "StartError", "ContainerCannotRun":
		said, remedy = last.Reason+": "+Detail(last.Message), "correct its command"
	default:
		said += ", " + Detail(last.Reason)
	}
	return &Cause{
		Reason: ReasonCrashLoop, failing: true, Message: fmt.Sprintf("container %s %s (the last time: %s); %s", status.Name, again, said, remedy),
		Says: &Speaker{Container: status.Name, Previous: status.State.Running != nil, Ended: last.ContainerID}, loops: loops,
	}
}

// readinessGates is the reason of a pod that waits for conditions which others write.
const readinessGates = "ReadinessGatesNotReady"

// probing looks at a pod whose containers run: one that was ready before, or has had a minute
// to become it, fails its readiness probe.
func probing(pod *corev1.Pod, now time.Time) (*Cause, time.Duration) {
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
	if unready == "" && ready.Reason != readinessGates {
		// The kubelet says of each container that it is ready, and something else took the pod's own word
		// back: the node lifecycle controller does for all pods of a node that does not answer.
		return nodeNotReady(), 0
	}
	if left := probeTime - now.Sub(started); !wasReady && left > 0 {
		return nil, left
	}
	return &Cause{
		Reason: reasonUnready, failing: true, Message: fmt.Sprintf(
			"container %s runs and does not report that it is ready; its log tells why", cmp.Or(unready, "(unknown)")),
		Says: &Speaker{Pod: pod.Name, Container: unready},
	}, 0
}

// OfApp is the cause in words about the app, for a container that runs and is not ready: the runner in it has said
// that its app does not stay up.
func (c *Cause) OfApp() Cause {
	said := *c
	if c.Reason == reasonUnready {
		said.Message = "the app ends and is started again; its log tells why"
	}
	return said
}

// Detail makes a text of the runtime cluster fit to be quoted in a message.
func Detail(text string) string {
	return Shortened(strings.Trim(OneLine(text), " .;"), MaxDetail)
}

// OneLine is a text without line breaks and without what a terminal would obey: some of it is a
// tenant's, or a pod's, and kubectl prints it as it is.
func OneLine(text string) string {
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

// Sooner is the smaller of two times to wait, of which zero means never.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Speaker is the container that wrote why it is not well.
type Speaker struct {
	Pod, Container string
	// Previous: its log is that of the instance of the container before the present one.
	Previous bool
	// Ended is the runtime's name of the instance of the container that has ended; empty for one that runs.
	Ended string
}
