// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// newPod puts a pod of the instance on the runtime cluster that has no node yet, and returns what changes it.
func (w *world) newPod() (change func(func(*corev1.PodStatus))) {
	w.t.Helper()
	pod := fixture.PodOf("sandbox-0", corev1.ContainerStatus{})
	pod.Namespace, pod.Status = w.id().Namespace(), corev1.PodStatus{Phase: corev1.PodPending}
	if err := w.runtime.Create(w.t.Context(), &pod); err != nil {
		w.t.Fatal(err)
	}
	return func(to func(*corev1.PodStatus)) {
		w.t.Helper()
		w.changePod(pod.Namespace, func(pod *corev1.Pod) { to(&pod.Status) })
	}
}

func isTrue(name corev1.PodConditionType, since time.Time) corev1.PodCondition {
	return corev1.PodCondition{Type: name, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}
}

func namesOf(steps []sandbarv1alpha1.InstanceStartStep) (names []string) {
	for _, step := range steps {
		names = append(names, step.Name)
	}
	return names
}

// A start writes its status as often as it did before it had steps: they go with the writes that there are.
func TestTheStepsOfAStartCostNoWrite(t *testing.T) {
	w := newOwnWorld(t, ownTemplate("mine", "uid-1", "of-mine"))
	w.writeSource(fromOwn("mine"))
	created := time.Now().Truncate(time.Second)
	w.inKCP.SetCreationTimestamp(metav1.NewTime(created))
	w.settle()
	w.now = func() time.Time { return created.Add(5500 * time.Millisecond) }
	change := w.newPod()
	w.settle() // the pods are starting

	look := func(what string, want ...string) {
		t.Helper()
		w.patches = nil
		w.mustReconcile()
		if !slices.Equal(w.patches, want) {
			t.Errorf("%s: written was %v, want %v", what, w.patches, want)
		}
	}
	change(func(s *corev1.PodStatus) {
		s.Conditions = append(s.Conditions, isTrue(corev1.PodScheduled, created.Add(time.Second)))
	})
	look("it has a node")
	change(func(s *corev1.PodStatus) {
		s.Phase, s.ContainerStatuses = corev1.PodRunning, []corev1.ContainerStatus{{Name: "main"}}
		s.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(created.Add(3 * time.Second))}
	})
	look("its container runs")
	if steps := w.startedAs().Steps; len(steps) > 0 {
		t.Errorf("steps were written without a reason: %v", steps)
	}
	change(func(s *corev1.PodStatus) {
		s.ContainerStatuses[0].Ready = true
		s.Conditions = append(s.Conditions, isTrue(corev1.PodReady, created.Add(5*time.Second)))
	})
	w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration()))
	look("it is Ready", "status")
	start := w.startedAs()
	if got, want := namesOf(start.Steps), []string{"Scheduled", "Started", "PodReady"}; !slices.Equal(got, want) || start.Times.Ready == nil {
		t.Errorf("its steps are %v, and it was Ready at %v", got, start.Times.Ready)
	}
	change(func(s *corev1.PodStatus) {
		s.Conditions[1].LastTransitionTime = metav1.NewTime(created.Add(6 * time.Second))
	})
	look("at rest")
}

// What its pod did before it was the Sandbox's is not a step of it.
func TestAWarmStartHasNoStepOfTheTimeBefore(t *testing.T) {
	w := newWarmWorld(t, 1)
	name := w.memberNames()[0]
	w.changePod(name, func(pod *corev1.Pod) {
		for i := range pod.Status.Conditions {
			pod.Status.Conditions[i].LastTransitionTime = metav1.NewTime(w.inKCP.GetCreationTimestamp().Add(-time.Minute))
		}
	})
	w.mustReconcile()
	if start := w.startedAs(); start.Type != sandbarv1alpha1.StartWarm || len(start.Steps) > 0 || start.Times.Ready == nil {
		t.Errorf("it started as %+v", start)
	}
}

// A kind that no set keeps ready has the steps of its start, and no event: it could not have started otherwise.
func TestEveryKindRecordsItsStart(t *testing.T) {
	for name, test := range map[string]struct {
		before func(w *world)
		want   bool
	}{
		"at once": {func(*world) {}, true},
		"after it waited for the provider": {func(w *world) {
			settings := w.settings.Infrastructure
			w.settings.Infrastructure = nil
			w.settle()
			w.settings.Infrastructure = settings
		}, true},
		"not if it started before statuses said so": {func(w *world) {
			w.settle()
			unstructured.RemoveNestedField(w.inKCP.Object, "status", "start") // it is Materializing
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			created := time.Now().Truncate(time.Second)
			w.inKCP.SetCreationTimestamp(metav1.NewTime(created))
			test.before(w)
			w.settle()
			change := w.newPod()
			change(func(s *corev1.PodStatus) {
				s.Phase, s.Conditions = corev1.PodRunning, []corev1.PodCondition{isTrue(corev1.PodScheduled, created), isTrue(corev1.PodReady, created)}
			})
			w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration()))
			w.settle()
			status, err := outcome.ReadStatus(w.inKCP)
			if err != nil || status.Phase != sandbarv1alpha1.InstanceReady {
				t.Fatalf("it is %s: %v", status.Phase, err)
			}
			switch start := status.Start; {
			case (start != nil) != test.want:
				t.Errorf("it started as %+v", start)
			case start != nil && (start.Type != sandbarv1alpha1.StartCold || start.Reason != "" || start.Times.Ready == nil || !slices.Equal(namesOf(start.Steps), []string{"Scheduled", "PodReady"})):
				t.Errorf("it started as %+v", start)
			}
			for _, event := range w.events {
				if event.Reason == eventStartedCold {
					t.Errorf("an event says %q", event.Message)
				}
			}
		})
	}
}
