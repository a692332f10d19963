// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

// created is when the instances of these tests were created; what happens to their pods is given in seconds after that.
var created = fixture.Now.Add(-time.Hour)

func after(seconds float64) time.Time {
	return created.Add(time.Duration(seconds * float64(time.Second)))
}

// stepping is a pod whose conditions became true, and whose containers were started, so many seconds after the creation.
func stepping(name string, conditions map[corev1.PodConditionType]float64, started ...float64) corev1.Pod {
	pod := fixture.PodOf(name, corev1.ContainerStatus{})
	pod.Status.Conditions, pod.Status.ContainerStatuses = nil, nil
	for condition, at := range conditions {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(after(at))})
	}
	for i, at := range started {
		status := corev1.ContainerStatus{Name: fmt.Sprintf("app-%d", i)}
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(after(at))}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	return pod
}

type trueAt = map[corev1.PodConditionType]float64

// ran is a pod of which all is known: Initialized is what the kubelet says of one without init containers.
func ran(name string, ready float64, started ...float64) corev1.Pod {
	return stepping(name, trueAt{
		corev1.PodScheduled: 1, corev1.PodReadyToStartContainers: 2, corev1.PodInitialized: 1, corev1.PodReady: ready,
	}, started...)
}

// inWords are steps as "Scheduled 1, Started 3".
func inWords(steps []sandbarv1alpha1.InstanceStartStep) string {
	var words []string
	for _, step := range steps {
		words = append(words, fmt.Sprintf("%s %v", step.Name, step.Time.Sub(created).Seconds()))
	}
	return strings.Join(words, ", ")
}

func startedAt(kind string, placed float64) *sandbarv1alpha1.InstanceStart {
	start := &sandbarv1alpha1.InstanceStart{Type: kind}
	start.Times.Requested = &metav1.MicroTime{Time: created}
	if placed > 0 {
		start.Times.Placed = &metav1.MicroTime{Time: after(placed)}
	}
	return start
}

func TestTheStepsOfAStartAreThoseOfItsPods(t *testing.T) {
	waits := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, fixture.WaitingFor("ContainerCreating", ""))
	}
	initialized := func(pod *corev1.Pod) {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare"}}
	}
	job := func(pod *corev1.Pod) { pod.OwnerReferences[0].Kind = "Job" }
	removed := func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(after(9))) }
	ended := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(after(4))}}
	}
	restarted := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].RestartCount = 1
		pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(after(3))}
	}
	const all = "Scheduled 1, ReadyToStartContainers 2, Started 4, PodReady 5"
	for name, test := range map[string]struct {
		warm float64 // when it took its sandbox; 0 means cold
		pods []corev1.Pod
		want string
	}{
		"none without pods":                    {},
		"of a cold start all":                  {pods: []corev1.Pod{ran("a", 5, 4)}, want: all},
		"one that is not taken yet is missing": {pods: []corev1.Pod{stepping("a", trueAt{corev1.PodScheduled: 1})}, want: "Scheduled 1"},
		"a pod that waits for a node has none": {pods: []corev1.Pod{fixture.With(stepping("a", nil), fixture.Unschedulable("0/1 nodes"))}},
		"the last container counts":            {pods: []corev1.Pod{ran("a", 8, 3, 7, 6)}, want: "Scheduled 1, ReadyToStartContainers 2, Started 7, PodReady 8"},
		"with a container that waits the pod has not started": {
			pods: []corev1.Pod{fixture.With(stepping("a", trueAt{corev1.PodScheduled: 1}, 3), waits)}, want: "Scheduled 1",
		},
		"a container that is done has started": {pods: []corev1.Pod{fixture.With(ran("a", 5, 1), ended)}, want: all},
		"an older kubelet does not report the sandbox of the pod": {
			pods: []corev1.Pod{stepping("a", trueAt{corev1.PodScheduled: 1, corev1.PodReady: 5}, 4)}, want: "Scheduled 1, Started 4, PodReady 5",
		},
		"init containers have a step": {
			pods: []corev1.Pod{fixture.With(stepping("a", trueAt{corev1.PodScheduled: 1, corev1.PodInitialized: 3, corev1.PodReady: 5}, 4), initialized)},
			want: "Scheduled 1, Initialized 3, Started 4, PodReady 5",
		},
		"of two pods the later one counts": {
			pods: []corev1.Pod{ran("a", 5, 4), ran("b", 7, 3)}, want: "Scheduled 1, ReadyToStartContainers 2, Started 4, PodReady 7",
		},
		"what one of two pods has not done is missing": {
			pods: []corev1.Pod{ran("a", 5, 4), stepping("b", trueAt{corev1.PodScheduled: 3})}, want: "Scheduled 3",
		},
		"the init containers of one of two pods count": {
			pods: []corev1.Pod{ran("a", 5, 4), fixture.With(stepping("b", trueAt{
				corev1.PodScheduled: 1, corev1.PodReadyToStartContainers: 1, corev1.PodInitialized: 3, corev1.PodReady: 5,
			}, 4), initialized)},
			want: "Scheduled 1, ReadyToStartContainers 2, Initialized 3, Started 4, PodReady 5",
		},
		"pods of Jobs and those that go do not count": {
			pods: []corev1.Pod{ran("a", 5, 4), fixture.With(stepping("b", nil), job), fixture.With(stepping("c", nil), removed)}, want: all,
		},
		"a container that was started again counts from then": {
			pods: []corev1.Pod{fixture.With(ran("a", 22, 20), restarted)}, want: "Scheduled 1, ReadyToStartContainers 2, Started 20, PodReady 22",
		},
		"a warm start has none of before": {warm: 60.25, pods: []corev1.Pod{ran("a", 5, 4)}},
		"a warm start has those of after": {warm: 60.25, pods: []corev1.Pod{ran("a", 63, 62)}, want: "Started 62, PodReady 63"},
		"in the second in which a sandbox was taken a step may have come before": {
			warm: 60.25, pods: []corev1.Pod{ran("a", 61, 60)}, want: "PodReady 61",
		},
		"a time before the creation is that of another clock": {
			pods: []corev1.Pod{stepping("a", trueAt{corev1.PodScheduled: 0, corev1.PodReady: 2}, -1)}, want: "Scheduled 0, PodReady 2",
		},
		"so is a time before the step that it follows": {
			pods: []corev1.Pod{stepping("a", trueAt{corev1.PodScheduled: 3, corev1.PodReady: 4}, 2)}, want: "Scheduled 3, PodReady 4",
		},
		"a node whose clock is ahead says what it says": {
			pods: []corev1.Pod{stepping("a", trueAt{corev1.PodScheduled: 1, corev1.PodReady: 7209}, 7203)}, want: "Scheduled 1, Started 7203, PodReady 7209",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Outcome{Start: startedAt(sandbarv1alpha1.StartCold, 0), Now: fixture.Now}
			if test.warm > 0 {
				o.Start = startedAt(sandbarv1alpha1.StartWarm, test.warm)
			}
			o.Pods = Summarize(test.pods, o.Now)
			if got := inWords(startOf(o, sandbarv1alpha1.InstanceStatus{}, true).Steps); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestTheStepsAreThoseUntilTheInstanceWasFirstReady(t *testing.T) {
	var status sandbarv1alpha1.InstanceStatus
	look := func(ready bool, start *sandbarv1alpha1.InstanceStart, pods ...corev1.Pod) string {
		t.Helper()
		before := status.Start.DeepCopy()
		o := Outcome{Start: start, Now: fixture.Now, Observation: Observation{Pods: Summarize(pods, fixture.Now)}}
		got := startOf(o, status, ready)
		if fmt.Sprint(before) != fmt.Sprint(status.Start) {
			t.Error("the former status was changed")
		}
		status.Start = got
		return inWords(got.Steps)
	}
	for _, test := range []struct {
		name, got, want string
	}{
		{"it is made", look(false, startedAt(sandbarv1alpha1.StartCold, 0)), ""},
		{"its pod has a node", look(false, nil, stepping("a", trueAt{corev1.PodScheduled: 1})), "Scheduled 1"},
		{"it is suspended before it was ready", look(false, nil), ""},
		{"it is resumed, with another pod", look(true, nil, ran("a", 99, 98)), "Scheduled 1, ReadyToStartContainers 2, Started 98, PodReady 99"},
		{"its container is started again", look(true, nil, ran("a", 199, 198)), "Scheduled 1, ReadyToStartContainers 2, Started 98, PodReady 99"},
		{"it is suspended", look(false, nil), "Scheduled 1, ReadyToStartContainers 2, Started 98, PodReady 99"},
		{"it is resumed", look(true, nil, ran("b", 299, 298)), "Scheduled 1, ReadyToStartContainers 2, Started 98, PodReady 99"},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, test.got, test.want)
		}
	}
}

func TestStepsStayWhileThePodsAreNotLookedAt(t *testing.T) {
	old := sandbarv1alpha1.InstanceStatus{Start: startedAt(sandbarv1alpha1.StartCold, 0)}
	old.Start.Steps = Summarize([]corev1.Pod{ran("a", 5, 4)}, fixture.Now).Steps[:1]
	if got := inWords(startOf(Outcome{Now: fixture.Now}, old, false).Steps); got != "Scheduled 1" {
		t.Errorf("got %q", got)
	}
}

func TestAnInstanceWhoseStartWasNotRecordedHasNoSteps(t *testing.T) {
	o := Outcome{Now: fixture.Now, Observation: Observation{Pods: Summarize([]corev1.Pod{ran("a", 5, 4)}, fixture.Now)}}
	if start := startOf(o, sandbarv1alpha1.InstanceStatus{}, true); start != nil {
		t.Errorf("it started as %+v", start)
	}
}

func TestAStatusSaysTheSameButForTheStepsOfTheStart(t *testing.T) {
	status := func(phase, kind string, steps ...any) map[string]any {
		return map[string]any{"phase": phase, "start": map[string]any{"type": kind, "steps": steps}}
	}
	one := status("Materializing", "Cold", "Scheduled")
	for name, test := range map[string]struct {
		other map[string]any
		same  bool
	}{
		"itself":            {status("Materializing", "Cold", "Scheduled"), true},
		"another step":      {status("Materializing", "Cold", "Scheduled", "Started"), true},
		"no steps":          {map[string]any{"phase": "Materializing", "start": map[string]any{"type": "Cold"}}, true},
		"another phase":     {status("Ready", "Cold", "Scheduled"), false},
		"another start":     {status("Materializing", "Warm", "Scheduled"), false},
		"no start":          {map[string]any{"phase": "Materializing"}, false},
		"nothing":           {nil, false},
		"a start of a text": {map[string]any{"phase": "Materializing", "start": "Cold"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SaysTheSame(one, test.other); got != test.same {
				t.Errorf("says the same: %v", got)
			}
			if len(one["start"].(map[string]any)["steps"].([]any)) != 1 {
				t.Error("a status was changed")
			}
		})
	}
}
