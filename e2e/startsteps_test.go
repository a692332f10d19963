// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// checkSteps fails the test unless a start has these steps of its pods, in their order and with times that do not go
// back: none before the creation and, of a warm one, none before it took its sandbox. There may be others, such as
// ReadyToStartContainers, which the kubelet does not have to report.
func checkSteps(t *testing.T, start *sandbarv1alpha1.InstanceStart, want ...string) {
	t.Helper()
	from := start.Times.Requested.Time
	if start.Times.Placed != nil {
		from = start.Times.Placed.Time
	}
	var names []string
	for _, step := range start.Steps {
		names = append(names, step.Name)
		if step.Time.Time.Before(from) {
			t.Errorf("step %s was at %v, and what it follows at %v", step.Name, step.Time, from)
		}
		from = step.Time.Time
	}
	found := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(want, name) })
	if !slices.Equal(found, want) {
		t.Errorf("it started with the steps %v, want %v", names, want)
	}
}
