// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// started is a status whose times are seconds after noon; 0 means that there is none.
func started(placed, ready, condition float64, steps map[string]float64) *sandbarv1alpha1.InstanceStatus {
	at := func(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
	micro := func(seconds float64) *metav1.MicroTime {
		if seconds == 0 {
			return nil
		}
		return &metav1.MicroTime{Time: at(seconds)}
	}
	status := &sandbarv1alpha1.InstanceStatus{Start: &sandbarv1alpha1.InstanceStart{Type: sandbarv1alpha1.StartCold}}
	status.Start.Times = sandbarv1alpha1.InstanceStartTimes{Requested: &metav1.MicroTime{Time: noon}, Placed: micro(placed), Ready: micro(ready)}
	if condition != 0 {
		status.Conditions = []metav1.Condition{{Type: sandbarv1alpha1.InstancePlaced, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(condition))}}
	}
	for _, name := range []string{sandbarv1alpha1.StepScheduled, sandbarv1alpha1.StepStarted, sandbarv1alpha1.StepPodReady} {
		if seconds, ok := steps[name]; ok {
			status.Start.Steps = append(status.Start.Steps, sandbarv1alpha1.InstanceStartStep{Name: name, Time: metav1.NewTime(at(seconds))})
		}
	}
	return status
}

func TestTheStepsOfAStartHaveTheDigitsThatAreKnown(t *testing.T) {
	type steps = map[string]float64
	lost := started(0, 5, 2, nil)
	lost.Conditions[0].Status = metav1.ConditionFalse
	for name, test := range map[string]struct {
		status *sandbarv1alpha1.InstanceStatus
		want   string // each step with how long it took, and the resolution of that
	}{
		"a kind that does not record its start has none": {&sandbarv1alpha1.InstanceStatus{}, ""},
		"nor has a start whose creation is not told":     {&sandbarv1alpha1.InstanceStatus{Start: &sandbarv1alpha1.InstanceStart{}}, ""},
		"it has just been created":                       {started(0, 0, 0, nil), "Created 0s/1s"},
		"a warm start is known to the microsecond, but for the creation": {
			started(1.25, 1.5, 1, nil), "Created 0s/1s, Placed 1s/1s, Ready 250ms/1µs",
		},
		"a cold start is in whole seconds": {
			started(0, 5.75, 1, steps{"Scheduled": 1, "Started": 4, "PodReady": 5}),
			"Created 0s/1s, Placed 1s/1s, Scheduled 0s/1s, Started 3s/1s, PodReady 1s/1s, Ready 0s/1s",
		},
		"a step in the second in which it was placed took less than one": {
			started(1.25, 2.5, 0, steps{"PodReady": 1}), "Created 0s/1s, Placed 1s/1s, PodReady 0s/1s, Ready 1s/1s",
		},
		"it has not become Ready": {started(0, 0, 1, steps{"Scheduled": 2}), "Created 0s/1s, Placed 1s/1s, Scheduled 1s/1s"},
		"a step of a clock that is behind is left out": {
			started(0, 6.5, 3, steps{"Scheduled": 2, "Started": 5}), "Created 0s/1s, Placed 3s/1s, Started 2s/1s, Ready 1s/1s",
		},
		"so is one of a clock that is ahead": {
			started(0, 6.5, 1, steps{"Scheduled": 2, "Started": 7}), "Created 0s/1s, Placed 1s/1s, Scheduled 1s/1s, Ready 4s/1s",
		},
		"another placement since says nothing of the start": {started(0, 5.5, 60, nil), "Created 0s/1s, Ready 5s/1s"},
		"nor does one that is not there":                    {lost, "Created 0s/1s, Ready 5s/1s"},
	} {
		t.Run(name, func(t *testing.T) {
			var words []string
			for _, step := range stepsOf(test.status) {
				words = append(words, fmt.Sprintf("%s %v/%v", step.Name, step.Took, step.Resolution))
			}
			if got := strings.Join(words, ", "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
