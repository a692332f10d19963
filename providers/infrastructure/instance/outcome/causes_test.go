// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

func TestAPodSaysWhyItIsNotReady(t *testing.T) {
	backoff := fixture.WaitingFor("CrashLoopBackOff", "back-off 10s")
	backoff.RestartCount, backoff.LastTerminationState = 3, fixture.Ended(137, "OOMKilled").State
	for name, test := range map[string]struct {
		pod                        corev1.Pod
		reason                     string
		says                       []string
		capacity, failing, recheck bool
	}{
		"ready":                                  {pod: fixture.PodOf("a", fixture.Running(time.Hour, true, 0))},
		"being made":                             {pod: fixture.PodOf("a", fixture.WaitingFor("ContainerCreating", ""))},
		"running for a moment and not ready yet": {pod: fixture.PodOf("a", fixture.Running(time.Second, false, 0)), recheck: true},
		"an image that is not there": {
			pod: fixture.PodOf("a", fixture.WaitingFor("ErrImagePull", "not found")), reason: ReasonImage, failing: true,
			says: []string{"registry.example.test/app:1", "container app", "not found", "correct its name"},
		},
		"an image that is still not there": {pod: fixture.PodOf("a", fixture.WaitingFor("ImagePullBackOff", "")), reason: ReasonImage, failing: true},
		"an image whose name is none":      {pod: fixture.PodOf("a", fixture.WaitingFor("InvalidImageName", "")), reason: ReasonImage, failing: true},
		"a Secret that is not there": {
			pod:    fixture.PodOf("a", fixture.WaitingFor("CreateContainerConfigError", `secret "x" not found`)),
			reason: reasonNotStartable, failing: true, says: []string{`secret "x" not found`},
		},
		"a program that is not there": {
			pod:    fixture.PodOf("a", fixture.WaitingFor("RunContainerError", "exec: no such file")),
			reason: reasonNotStartable, failing: true, says: []string{"no such file", "its command"},
		},
		"a crash": {
			pod: fixture.PodOf("a", fixture.Ended(2, "Error")), reason: ReasonCrashLoop, failing: true, says: []string{"exit code 2", "its log"},
		},
		"a crash loop for want of memory": {
			pod: fixture.PodOf("a", backoff), reason: ReasonCrashLoop, failing: true, says: []string{"memory", "raise the limit"},
		},
		"up again after one crash, by its probe": {pod: fixture.With(fixture.PodOf("a", fixture.Running(time.Second, true, 1)), fixture.ProbedPod)},
		// Without a probe a container is ready whenever it begins, also for the moment until its next crash.
		"up for a moment after a crash, without a probe": {
			pod: fixture.PodOf("a", fixture.Running(time.Second, true, 1)), reason: ReasonCrashLoop, failing: true, recheck: true,
			says: []string{"has ended and is started again (the last time: exit code 1)"},
		},
		"up for a while after a crash, without a probe": {pod: fixture.PodOf("a", fixture.Running(momentTime, true, 1))},
		"up for a moment amidst crashes":                {pod: fixture.PodOf("a", fixture.Running(time.Second, true, 2)), reason: ReasonCrashLoop, failing: true, recheck: true},
		"up for long after many crashes":                {pod: fixture.PodOf("a", fixture.Running(settleTime, true, 9))},
		"not ready any more":                            {pod: fixture.PodOf("a", fixture.Running(2*time.Hour, false, 0)), reason: reasonUnready, failing: true},
		"never ready for more than a time":              {pod: fixture.PodOf("a", fixture.Running(probeTime, false, 0)), reason: reasonUnready, failing: true},
		"no node has room": {
			pod:    fixture.With(fixture.PodOf("a", corev1.ContainerStatus{}), fixture.Unschedulable("0/1 nodes are available: 1 Insufficient cpu.")),
			reason: reasonNoRoom, capacity: true, says: []string{"Insufficient cpu", "ask for less"},
		},
		"its node does not answer": {
			// The node lifecycle controller takes the pod's word back; the containers' own stays.
			pod: fixture.With(fixture.PodOf("a", fixture.Running(2*time.Hour, true, 0)), func(p *corev1.Pod) {
				p.Status.Conditions[0].Status = corev1.ConditionFalse
			}), reason: reasonNode, failing: true, says: []string{"does not answer", "the operator"},
		},
		"its node does not answer, and it was never ready": {
			pod: fixture.With(fixture.PodOf("a", fixture.Running(time.Second, true, 0)), func(p *corev1.Pod) {
				p.Status.Conditions[0].Status = corev1.ConditionFalse
			}), reason: reasonNode, failing: true,
		},
		"it waits for a readiness gate": {
			pod: fixture.With(fixture.PodOf("a", fixture.Running(time.Second, true, 0)), func(p *corev1.Pod) {
				p.Status.Conditions[0].Status, p.Status.Conditions[0].Reason = corev1.ConditionFalse, "ReadinessGatesNotReady"
			}), recheck: true,
		},
		"the only node does not answer": {
			pod: fixture.With(fixture.PodOf("a", corev1.ContainerStatus{}), fixture.Unschedulable(
				"0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.")),
			reason: reasonNode, failing: true, says: []string{"the operator"},
		},
		"its volume is not bound": {
			pod:    fixture.With(fixture.PodOf("a", corev1.ContainerStatus{}), fixture.Unschedulable("pod has unbound immediate PersistentVolumeClaims")),
			reason: ReasonVolume, says: []string{"waits for its volume"},
		},
		"the scheduler does not know its claim yet": {
			pod: fixture.With(fixture.PodOf("a", corev1.ContainerStatus{}), fixture.Unschedulable(
				`0/1 nodes are available: persistentvolumeclaim "data-sandbox-0" not found. not found`)),
			reason: ReasonVolume, says: []string{"waits for its volume"},
		},
		"the scheduler has failed and tries again": {
			pod: fixture.With(fixture.PodOf("a", corev1.ContainerStatus{}), fixture.Unschedulable("binding rejected"), func(p *corev1.Pod) {
				p.Status.Conditions[0].Reason = corev1.PodReasonSchedulerError
			}),
			reason: reasonNoSandbox, says: []string{"binding rejected", "tries again"},
		},
		"a bare pod that has failed": {
			pod: fixture.With(fixture.PodOf("a", corev1.ContainerStatus{}), func(p *corev1.Pod) {
				p.OwnerReferences, p.Status.Phase, p.Status.Reason = nil, corev1.PodFailed, "Evicted"
			}),
			reason: reasonPodFailed, failing: true, says: []string{"Evicted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, recheck := causeOf(&test.pod, fixture.Now)
			if c == nil {
				c = &Cause{}
			}
			if c.Reason != test.reason || c.capacity != test.capacity || c.failing != test.failing || (recheck > 0) != test.recheck {
				t.Errorf("cause %+v, recheck %v", *c, recheck)
			}
			for _, word := range test.says {
				if !strings.Contains(c.Message, word) {
					t.Errorf("the message %q does not say %q", c.Message, word)
				}
			}
			// What a program wrote before its end may be anything, a password too.
			if strings.Contains(c.Message, "hunter2") {
				t.Errorf("the message quotes the program: %q", c.Message)
			}
		})
	}
}

func TestPodsAreCountedAsWhatTheyAreFor(t *testing.T) {
	ownedBy := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences[0].Kind = kind }
	}
	deleted := fixture.Before(0)
	sum := Summarize([]corev1.Pod{
		fixture.PodOf("d-ready", fixture.Running(time.Hour, true, 0)),
		fixture.PodOf("c-starting", fixture.WaitingFor("ContainerCreating", "")),
		fixture.With(fixture.PodOf("a-job", fixture.WaitingFor("ErrImagePull", "")), ownedBy("Job")),
		fixture.PodOf("b-broken", fixture.WaitingFor("InvalidImageName", "")),
		fixture.With(fixture.PodOf("e-going", fixture.WaitingFor("ErrImagePull", "")), func(p *corev1.Pod) { p.DeletionTimestamp = &deleted }),
		fixture.With(fixture.PodOf("f-done", fixture.Ended(0, "")), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		fixture.With(fixture.PodOf("g-evicted", fixture.Ended(1, "")), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
	}, fixture.Now)
	if sum.Present != 3 || sum.Ready != 1 || sum.releasing != 2 {
		t.Errorf("present %d, ready %d, releasing %d", sum.Present, sum.Ready, sum.releasing)
	}
	if sum.Cause == nil || sum.Cause.job || !strings.Contains(sum.Cause.Message, "InvalidImageName") {
		t.Errorf("a Job's cause goes before that of a pod that should serve: %+v", sum.Cause)
	}
	want := map[string]bool{"a-job": true, "b-broken": true, "c-starting": true, "d-ready": true}
	if diff := cmp.Diff(want, sum.Names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatTheRuntimeSaysIsCleanedAndBounded(t *testing.T) {
	got := Detail("a\x1b[31mred\nline\u202e\xff " + strings.Repeat("ä", MaxDetail))
	if len(got) > MaxDetail || strings.ContainsAny(got, "\x1b\n\u202e") || !strings.HasPrefix(got, "a[31mred lineä") && !strings.HasPrefix(got, "a[31mred line ä") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestOnlyAChangeThatCanChangeTheStatusWakesAnInstance(t *testing.T) {
	base := fixture.PodOf("a", fixture.Running(time.Hour, true, 1))
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a heartbeat":         {func(p *corev1.Pod) { p.ResourceVersion = "2" }, false},
		"an address":          {func(p *corev1.Pod) { p.Status.PodIP = "198.51.100.1" }, false},
		"the time of a probe": {func(p *corev1.Pod) { p.Status.Conditions[0].LastProbeTime = fixture.Before(0) }, false},
		"another condition":   {func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "x"}) }, false},
		"the phase":           {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"being ready":         {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"finding a node":      {func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }, true},
		"a restart":           {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount++ }, true},
		"a container that waits": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = fixture.WaitingFor("ErrImagePull", "").State
		}, true},
		"the beginning of its removal": {func(p *corev1.Pod) { now := fixture.Before(0); p.DeletionTimestamp = &now }, true},
	} {
		t.Run(name, func(t *testing.T) {
			changed := base.DeepCopy()
			test.change(changed)
			if got := PodMatters(&base, changed); got != test.want {
				t.Errorf("matters: %v", got)
			}
		})
	}
	claim := fixture.With(fixture.PodOf("a", corev1.ContainerStatus{}), fixture.Unschedulable(`persistentvolumeclaim "data-sandbox-0" not found`))
	full := fixture.With(claim, fixture.Unschedulable("1 Insufficient cpu"))
	fuller := fixture.With(claim, fixture.Unschedulable("2 Insufficient cpu"))
	if !PodMatters(&claim, &full) || PodMatters(&full, &fuller) {
		t.Error("what the scheduler says next does not matter, or each of its counts does")
	}
	// The kubelet says the one and the other in turn for as long as an image cannot be pulled.
	pull, backoff := fixture.PodOf("a", fixture.WaitingFor("ErrImagePull", "")), fixture.PodOf("a", fixture.WaitingFor("ImagePullBackOff", ""))
	if PodMatters(&pull, &backoff) {
		t.Error("an image that is still not pulled wakes the instance again")
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
		"a quota":           {events: []corev1.Event{fixture.EventOf(0, "ReplicaSet", "app", "FailedCreate", quota)}, reason: ReasonQuota, capacity: true},
		"a quota, mended":   {events: []corev1.Event{fixture.EventOf(9*time.Second, "ReplicaSet", "app", "FailedCreate", quota), fixture.EventOf(0, "ReplicaSet", "app", "SuccessfulCreate", "")}},
		"another's success": {events: []corev1.Event{fixture.EventOf(9*time.Second, "ReplicaSet", "app", "FailedCreate", quota), fixture.EventOf(0, "ReplicaSet", "b", "SuccessfulCreate", "")}, reason: ReasonQuota, capacity: true},
		"one from before":   {events: []corev1.Event{fixture.EventOf(time.Hour, "ReplicaSet", "app", "FailedCreate", quota)}},
		"pod security": {
			events: []corev1.Event{fixture.EventOf(0, "StatefulSet", "db", "FailedCreate", `create Pod db-0 failed error: pods "db-0" is forbidden: violates PodSecurity "restricted:latest": privileged`)},
			reason: ReasonPodRefused, failing: true,
		},
		"a runtime class": {
			events: []corev1.Event{fixture.EventOf(0, "ReplicaSet", "app", "FailedCreate", `pods "app-" is forbidden: pod rejected: RuntimeClass "gvisor" not found`)},
			reason: ReasonRuntimeClass, failing: true,
		},
		"another refusal":             {events: []corev1.Event{fixture.EventOf(0, "ReplicaSet", "app", "FailedCreate", "no")}, reason: ReasonPodRefused, failing: true},
		"a volume of a pod":           {events: []corev1.Event{fixture.EventOf(0, "Pod", "app-1", "FailedMount", "timed out")}, reason: ReasonVolume},
		"a volume of a pod that went": {events: []corev1.Event{fixture.EventOf(0, "Pod", "app-0", "FailedMount", "timed out")}},
		"a volume that is not made":   {events: []corev1.Event{fixture.EventOf(0, "PersistentVolumeClaim", "data", "ProvisioningFailed", "no space")}, reason: ReasonVolume},
		"a runtime handler":           {events: []corev1.Event{fixture.EventOf(0, "Pod", "app-1", "FailedCreatePodSandBox", "no runtime for kata")}, reason: reasonNoSandbox},
		"the newest": {
			events: []corev1.Event{fixture.EventOf(9*time.Second, "ReplicaSet", "app", "FailedCreate", quota), fixture.EventOf(0, "Pod", "app-1", "FailedMount", "")},
			reason: ReasonVolume,
		},
		"an event of the newer API": {
			events: []corev1.Event{{
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "app-1"}, Reason: "FailedMount",
				EventTime: metav1.NewMicroTime(fixture.Now.Add(-time.Hour)), Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(fixture.Now)},
			}},
			reason: ReasonVolume,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := CauseInEvents(test.events, map[string]bool{"app-1": true}, fixture.Now.Add(-10*time.Second))
			if c == nil {
				c = &Cause{}
			}
			if c.Reason != test.reason || c.capacity != test.capacity || c.failing != test.failing {
				t.Errorf("%+v", *c)
			}
			if strings.Contains(c.Message, "app-") {
				t.Errorf("the message names a pod that was never made: %q", c.Message)
			}
		})
	}
}

// A message with a number in it made a status write of each restart.
func TestACrashIsTheSameCauseHoweverOftenItHappens(t *testing.T) {
	crashing := func(restarts int32) string {
		return crashed(&corev1.ContainerStatus{Name: "app", RestartCount: restarts}, &corev1.ContainerStateTerminated{ExitCode: 3}).Message
	}
	if a, b := crashing(3), crashing(4); a != b {
		t.Errorf("%q and %q", a, b)
	}
}

func TestAPodThatDoesNotGoIsStuck(t *testing.T) {
	for since, want := range map[time.Duration]PodSummary{
		-time.Second:             {releasing: 1, Recheck: stuckAfter + time.Second},
		0:                        {releasing: 1, Recheck: stuckAfter},
		stuckAfter:               {releasing: 1, stuck: true},
		stuckAfter + time.Minute: {releasing: 1, stuck: true},
	} {
		got := Summarize([]corev1.Pod{fixture.With(fixture.PodOf("a", fixture.Running(time.Hour, true, 0)), func(p *corev1.Pod) {
			graceEnds := fixture.Before(since)
			p.DeletionTimestamp = &graceEnds
		})}, fixture.Now)
		if got.releasing != want.releasing || got.stuck != want.stuck || got.Recheck != want.Recheck {
			t.Errorf("%v after its grace: %+v", since, got)
		}
	}
	if said := releaseMessage(Outcome{Observation: Observation{Pods: PodSummary{stuck: true}}}); !strings.Contains(said, "the operator") {
		t.Errorf("a suspension that waits for a node says %q", said)
	}
}

func TestAClassThatDoesNotExistIsTheTenantsToCorrect(t *testing.T) {
	waits := fixture.With(fixture.PodOf("a", corev1.ContainerStatus{}), fixture.Unschedulable("pod has unbound immediate PersistentVolumeClaims"))
	event := fixture.EventOf(0, "PersistentVolumeClaim", "data", "ProvisioningFailed", `storageclass.storage.k8s.io "fats" not found`)
	o := Outcome{Observation: Observation{Pods: Summarize([]corev1.Pod{waits}, fixture.Now)}}
	if o.Cause().Reason != ReasonVolume {
		t.Fatalf("the pod says %+v", o.Cause())
	}
	o.Finding = CauseInEvents([]corev1.Event{event}, o.Pods.Names, fixture.Now.Add(-time.Minute))
	c := o.Cause()
	if c.Reason != reasonStorageClass || !c.failing || !strings.Contains(c.Message, `no StorageClass "fats"; correct the spec`) {
		t.Errorf("cause %+v", c)
	}
}
