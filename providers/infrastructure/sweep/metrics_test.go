// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// increase() sees nothing of a series that appears with its first event.
func TestWhatAnAlertReadsIsThereBeforeTheFirstSweep(t *testing.T) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, family := range families {
		if family.GetName() != "sandbar_sweep_rounds_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				there[label.GetValue()] = true
			}
		}
	}
	for _, result := range []string{sweepClean, sweepDeleted, sweepSkipped, sweepRefused} {
		if !there[result] {
			t.Errorf("no series of %s", result)
		}
	}
}
