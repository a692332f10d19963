// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestNotReadyMessageTellsThePhaseAndTheRemedy(t *testing.T) {
	for name, c := range map[string]struct {
		spec, status map[string]any
		want         []string
	}{
		"still being composed":       {map[string]any{"suspended": false}, map[string]any{"state": "IN_PROGRESS"}, []string{"phase Materializing", "condition Ready"}},
		"composed, its pod has gone": {nil, map[string]any{"state": "ACTIVE"}, []string{"phase Degraded", "condition Ready"}},
		"not looked at by kro yet":   {nil, nil, []string{"phase Materializing"}},
	} {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{"spec": c.spec, "status": c.status}
			got := notReadyMessage(&place{instance: &unstructured.Unstructured{Object: object}})
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
		})
	}
}
