// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

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
		"still being composed":           {map[string]any{"suspended": false}, map[string]any{"state": "IN_PROGRESS"}, []string{"is not ready", "condition Ready"}},
		"composed, and nothing is named": {nil, map[string]any{"state": "ACTIVE"}, []string{"no endpoint for this verb", "condition Ready"}},
		"not looked at by kro yet":       {nil, nil, []string{"is not ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{"spec": c.spec, "status": c.status}
			got := notReadyMessage(&Place{Instance: &unstructured.Unstructured{Object: object}})
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
		})
	}
}

// The data plane does not see what makes an instance Ready or Degraded, and said the second of instances
// whose condition Ready was true.
func TestTheDataPlaneJudgesNoInstanceThatIsMade(t *testing.T) {
	at := &Place{Instance: &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"state": "ACTIVE"}}}}
	for _, message := range []string{notReadyMessage(at), NoPodMessage(at)} {
		if strings.Contains(message, "phase") {
			t.Errorf("it says %q", message)
		}
	}
	if said := NoPodMessage(at); !strings.Contains(said, "no pod of the instance serves this verb") {
		t.Errorf("it says %q", said)
	}
}
