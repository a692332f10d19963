// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func before(d time.Duration) metav1.Time { return metav1.NewTime(testNow.Add(-d)) }

// podOf is a pod of a ReplicaSet with one container, whose Ready is false since its creation.
func podOf(name string, status corev1.ContainerStatus) corev1.Pod {
	status.Name = "app"
	owned := true
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: newScope().id.Namespace(),
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "app", Controller: &owned}},
	}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: before(time.Hour)}
	if status.Ready {
		ready.Status = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{ready, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	return pod
}

func waitingFor(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Image: "registry.example.test/app:1", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}}
}

func running(since time.Duration, ready bool, restarts int32) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Ready: ready, RestartCount: restarts}
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: before(since)}
	if restarts > 0 {
		status.LastTerminationState = ended(1, "Error").State
	}
	return status
}

func ended(code int32, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: "password=hunter2"},
	}}
}

func with(pod corev1.Pod, changes ...func(*corev1.Pod)) corev1.Pod {
	for _, change := range changes {
		change(&pod)
	}
	return pod
}

func unschedulable(message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = nil
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
		}}
	}
}

func TestAPodSaysWhyItIsNotReady(t *testing.T) {
	backoff := waitingFor("CrashLoopBackOff", "back-off 10s")
	backoff.RestartCount, backoff.LastTerminationState = 3, ended(137, "OOMKilled").State
	for name, test := range map[string]struct {
		pod                        corev1.Pod
		reason                     string
		says                       []string
		capacity, failing, recheck bool
	}{
		"ready":                                  {pod: podOf("a", running(time.Hour, true, 0))},
		"being made":                             {pod: podOf("a", waitingFor("ContainerCreating", ""))},
		"running for a moment and not ready yet": {pod: podOf("a", running(time.Second, false, 0)), recheck: true},
		"an image that is not there": {
			pod: podOf("a", waitingFor("ErrImagePull", "not found")), reason: reasonImage, failing: true,
			says: []string{"registry.example.test/app:1", "container app", "not found", "correct its name"},
		},
		"an image that is still not there": {pod: podOf("a", waitingFor("ImagePullBackOff", "")), reason: reasonImage, failing: true},
		"an image whose name is none":      {pod: podOf("a", waitingFor("InvalidImageName", "")), reason: reasonImage, failing: true},
		"a Secret that is not there": {
			pod:    podOf("a", waitingFor("CreateContainerConfigError", `secret "x" not found`)),
			reason: reasonNotStartable, failing: true, says: []string{`secret "x" not found`},
		},
		"a program that is not there": {
			pod:    podOf("a", waitingFor("RunContainerError", "exec: no such file")),
			reason: reasonNotStartable, failing: true, says: []string{"no such file", "its command"},
		},
		"a crash": {
			pod: podOf("a", ended(2, "Error")), reason: reasonCrashLoop, failing: true, says: []string{"exit code 2", "its log"},
		},
		"a crash loop for want of memory": {
			pod: podOf("a", backoff), reason: reasonCrashLoop, failing: true, says: []string{"3 restarts", "memory", "raise the limit"},
		},
		"up again after one crash":         {pod: podOf("a", running(time.Second, true, 1))},
		"up for a moment amidst crashes":   {pod: podOf("a", running(time.Second, true, 2)), reason: reasonCrashLoop, failing: true, recheck: true},
		"up for long after many crashes":   {pod: podOf("a", running(settleTime, true, 9))},
		"not ready any more":               {pod: podOf("a", running(2*time.Hour, false, 0)), reason: reasonUnready, failing: true},
		"never ready for more than a time": {pod: podOf("a", running(probeTime, false, 0)), reason: reasonUnready, failing: true},
		"no node has room": {
			pod:    with(podOf("a", corev1.ContainerStatus{}), unschedulable("0/1 nodes are available: 1 Insufficient cpu.")),
			reason: reasonNoRoom, capacity: true, says: []string{"Insufficient cpu", "ask for less"},
		},
		"its volume is not bound": {
			pod:    with(podOf("a", corev1.ContainerStatus{}), unschedulable("pod has unbound immediate PersistentVolumeClaims")),
			reason: reasonVolume, says: []string{"waits for its volume"},
		},
		"the scheduler does not know its claim yet": {
			pod: with(podOf("a", corev1.ContainerStatus{}), unschedulable(
				`0/1 nodes are available: persistentvolumeclaim "data-sandbox-0" not found. not found`)),
			reason: reasonVolume, says: []string{"waits for its volume"},
		},
		"the scheduler has failed and tries again": {
			pod: with(podOf("a", corev1.ContainerStatus{}), unschedulable("binding rejected"), func(p *corev1.Pod) {
				p.Status.Conditions[0].Reason = corev1.PodReasonSchedulerError
			}),
			reason: reasonNoSandbox, says: []string{"binding rejected", "tries again"},
		},
		"a bare pod that has failed": {
			pod: with(podOf("a", corev1.ContainerStatus{}), func(p *corev1.Pod) {
				p.OwnerReferences, p.Status.Phase, p.Status.Reason = nil, corev1.PodFailed, "Evicted"
			}),
			reason: reasonPodFailed, failing: true, says: []string{"Evicted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, recheck := causeOf(&test.pod, testNow)
			if c == nil {
				c = &cause{}
			}
			if c.reason != test.reason || c.capacity != test.capacity || c.failing != test.failing || (recheck > 0) != test.recheck {
				t.Errorf("cause %+v, recheck %v", *c, recheck)
			}
			for _, word := range test.says {
				if !strings.Contains(c.message, word) {
					t.Errorf("the message %q does not say %q", c.message, word)
				}
			}
			// What a program wrote before its end may be anything, a password too.
			if strings.Contains(c.message, "hunter2") {
				t.Errorf("the message quotes the program: %q", c.message)
			}
		})
	}
}

func TestPodsAreCountedAsWhatTheyAreFor(t *testing.T) {
	ownedBy := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences[0].Kind = kind }
	}
	deleted := before(0)
	sum := summarize([]corev1.Pod{
		podOf("d-ready", running(time.Hour, true, 0)),
		podOf("c-starting", waitingFor("ContainerCreating", "")),
		with(podOf("a-job", waitingFor("ErrImagePull", "")), ownedBy("Job")),
		podOf("b-broken", waitingFor("InvalidImageName", "")),
		with(podOf("e-going", waitingFor("ErrImagePull", "")), func(p *corev1.Pod) { p.DeletionTimestamp = &deleted }),
		with(podOf("f-done", ended(0, "")), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		with(podOf("g-evicted", ended(1, "")), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
	}, testNow)
	if sum.present != 3 || sum.ready != 1 || sum.releasing != 2 {
		t.Errorf("present %d, ready %d, releasing %d", sum.present, sum.ready, sum.releasing)
	}
	if sum.cause == nil || sum.cause.job || !strings.Contains(sum.cause.message, "InvalidImageName") {
		t.Errorf("a Job's cause goes before that of a pod that should serve: %+v", sum.cause)
	}
	want := map[string]bool{"a-job": true, "b-broken": true, "c-starting": true, "d-ready": true}
	if diff := cmp.Diff(want, sum.names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatTheRuntimeSaysIsCleanedAndBounded(t *testing.T) {
	got := detail("a\x1b[31mred\nline\u202e\xff " + strings.Repeat("ä", maxDetail))
	if len(got) > maxDetail || strings.ContainsAny(got, "\x1b\n\u202e") || !strings.HasPrefix(got, "a[31mred lineä") && !strings.HasPrefix(got, "a[31mred line ä") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestOnlyAChangeThatCanChangeTheStatusWakesAnInstance(t *testing.T) {
	base := podOf("a", running(time.Hour, true, 1))
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a heartbeat":                  {func(p *corev1.Pod) { p.ResourceVersion = "2" }, false},
		"an address":                   {func(p *corev1.Pod) { p.Status.PodIP = "198.51.100.1" }, false},
		"the time of a probe":          {func(p *corev1.Pod) { p.Status.Conditions[0].LastProbeTime = before(0) }, false},
		"another condition":            {func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "x"}) }, false},
		"the phase":                    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"being ready":                  {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"finding a node":               {func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }, true},
		"a restart":                    {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount++ }, true},
		"a container that waits":       {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = waitingFor("ErrImagePull", "").State }, true},
		"the beginning of its removal": {func(p *corev1.Pod) { now := before(0); p.DeletionTimestamp = &now }, true},
	} {
		t.Run(name, func(t *testing.T) {
			changed := base.DeepCopy()
			test.change(changed)
			if got := podMatters(&base, changed); got != test.want {
				t.Errorf("matters: %v", got)
			}
		})
	}
	claim := with(podOf("a", corev1.ContainerStatus{}), unschedulable(`persistentvolumeclaim "data-sandbox-0" not found`))
	full := with(claim, unschedulable("1 Insufficient cpu"))
	fuller := with(claim, unschedulable("2 Insufficient cpu"))
	if !podMatters(&claim, &full) || podMatters(&full, &fuller) {
		t.Error("what the scheduler says next does not matter, or each of its counts does")
	}
	// The kubelet says the one and the other in turn for as long as an image cannot be pulled.
	pull, backoff := podOf("a", waitingFor("ErrImagePull", "")), podOf("a", waitingFor("ImagePullBackOff", ""))
	if podMatters(&pull, &backoff) {
		t.Error("an image that is still not pulled wakes the instance again")
	}
}

func eventOf(age time.Duration, kind, name, reason, message string) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name},
		Reason:         reason, Message: message, LastTimestamp: before(age),
	}
}

func TestEventsTellWhatNoPodTells(t *testing.T) {
	quota := `pods "app-1" is forbidden: exceeded quota: sandbar, requested: pods=1, used: pods=3, limited: pods=3`
	for name, test := range map[string]struct {
		events            []corev1.Event
		reason            string
		capacity, failing bool
	}{
		"nothing":           {},
		"a quota":           {events: []corev1.Event{eventOf(0, "ReplicaSet", "app", "FailedCreate", quota)}, reason: reasonQuota, capacity: true},
		"a quota, mended":   {events: []corev1.Event{eventOf(9*time.Second, "ReplicaSet", "app", "FailedCreate", quota), eventOf(0, "ReplicaSet", "app", "SuccessfulCreate", "")}},
		"another's success": {events: []corev1.Event{eventOf(9*time.Second, "ReplicaSet", "app", "FailedCreate", quota), eventOf(0, "ReplicaSet", "b", "SuccessfulCreate", "")}, reason: reasonQuota, capacity: true},
		"one from before":   {events: []corev1.Event{eventOf(time.Hour, "ReplicaSet", "app", "FailedCreate", quota)}},
		"pod security": {
			events: []corev1.Event{eventOf(0, "StatefulSet", "db", "FailedCreate", `create Pod db-0 failed error: pods "db-0" is forbidden: violates PodSecurity "restricted:latest": privileged`)},
			reason: reasonPodRefused, failing: true,
		},
		"a runtime class": {
			events: []corev1.Event{eventOf(0, "ReplicaSet", "app", "FailedCreate", `pods "app-" is forbidden: pod rejected: RuntimeClass "gvisor" not found`)},
			reason: reasonRuntimeClass, failing: true,
		},
		"another refusal":             {events: []corev1.Event{eventOf(0, "ReplicaSet", "app", "FailedCreate", "no")}, reason: reasonPodRefused, failing: true},
		"a volume of a pod":           {events: []corev1.Event{eventOf(0, "Pod", "app-1", "FailedMount", "timed out")}, reason: reasonVolume},
		"a volume of a pod that went": {events: []corev1.Event{eventOf(0, "Pod", "app-0", "FailedMount", "timed out")}},
		"a volume that is not made":   {events: []corev1.Event{eventOf(0, "PersistentVolumeClaim", "data", "ProvisioningFailed", "no space")}, reason: reasonVolume},
		"a runtime handler":           {events: []corev1.Event{eventOf(0, "Pod", "app-1", "FailedCreatePodSandBox", "no runtime for kata")}, reason: reasonNoSandbox},
		"the newest": {
			events: []corev1.Event{eventOf(9*time.Second, "ReplicaSet", "app", "FailedCreate", quota), eventOf(0, "Pod", "app-1", "FailedMount", "")},
			reason: reasonVolume,
		},
		"an event of the newer API": {
			events: []corev1.Event{{
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "app-1"}, Reason: "FailedMount",
				EventTime: metav1.NewMicroTime(testNow.Add(-time.Hour)), Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(testNow)},
			}},
			reason: reasonVolume,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := causeInEvents(test.events, map[string]bool{"app-1": true}, testNow.Add(-10*time.Second))
			if c == nil {
				c = &cause{}
			}
			if c.reason != test.reason || c.capacity != test.capacity || c.failing != test.failing {
				t.Errorf("%+v", *c)
			}
			if strings.Contains(c.message, "app-") {
				t.Errorf("the message names a pod that was never made: %q", c.message)
			}
		})
	}
}
