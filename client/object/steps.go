// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Names of steps that are not those of the instance's pods.
const (
	StepCreated = "Created"
	StepPlaced  = "Placed"
	StepReady   = "Ready"
)

// Step is a step of an instance's start.
type Step struct {
	// Name is StepCreated, StepPlaced, the name of an InstanceStartStep or StepReady.
	Name string
	Time time.Time
	// Took is how long it took after the step before, in multiples of Resolution; 0 for the first one.
	Took time.Duration
	// Resolution is a second if Time, or that of the step before, is known in whole seconds only. Took is then less than a
	// second off. It is a microsecond otherwise.
	Resolution time.Duration
}

// moment is when a step was taken, and to what that is known.
type moment struct {
	name       string
	at         time.Time
	resolution time.Duration
}

// stepsOf returns the steps of a start in their order, from the creation to Ready; none if the status does not say how the
// instance started. A step that some clock puts before the one that it follows, or after Ready, is left out.
func stepsOf(status *sandbarv1alpha1.InstanceStatus) []Step {
	start := status.Start
	if start == nil || start.Times.Requested == nil {
		return nil
	}
	moments, ready := placedOf(status), start.Times.Ready
	for _, step := range start.Steps {
		if ready == nil || !step.Time.After(ready.Time) {
			moments = append(moments, moment{step.Name, step.Time.Time, time.Second})
		}
	}
	if ready != nil {
		moments = append(moments, moment{StepReady, ready.Time, time.Microsecond})
	}
	last := moment{StepCreated, start.Times.Requested.Time, time.Second}
	steps := []Step{{Name: last.name, Time: last.at, Resolution: last.resolution}}
	for _, next := range moments {
		resolution := max(next.resolution, last.resolution)
		took := next.at.Truncate(resolution).Sub(last.at.Truncate(resolution))
		if took >= 0 {
			steps, last = append(steps, Step{next.name, next.at, took, resolution}), next
		}
	}
	return steps
}

// placedOf is when the instance got its placement. For a cold start the condition Placed says that, unless it has changed
// since the instance was Ready: then the placement is another one.
func placedOf(status *sandbarv1alpha1.InstanceStatus) []moment {
	times := status.Start.Times
	if times.Placed != nil {
		return []moment{{StepPlaced, times.Placed.Time, time.Microsecond}}
	}
	if !meta.IsStatusConditionTrue(status.Conditions, sandbarv1alpha1.InstancePlaced) {
		return nil
	}
	at := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstancePlaced).LastTransitionTime.Time
	if times.Ready != nil && at.After(times.Ready.Time) {
		return nil
	}
	return []moment{{StepPlaced, at, time.Second}}
}
