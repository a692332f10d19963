// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// Of a volume that was deleted under a running pod the instance said for ever that it was being made.
func TestAResourceThatIsBeingDeletedIsNamedWhileItsDataCanBeSaved(t *testing.T) {
	const kroSays = `resource "sb-1/workspace" for node "workspace" is currently being deleted; waiting for deletion to complete before continuing reconciliation`
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: fixture.NewScope().Placement().Namespace(), Name: "workspace", Finalizers: []string{"kubernetes.io/pvc-protection"},
	}}
	pod := fixture.PodOf("a", fixture.Running(time.Hour, true, 0))
	for name, test := range map[string]struct {
		deleted bool
		reason  string
		phase   string
		says    []string
		told    int
	}{
		"a volume": {
			deleted: true, reason: outcome.ReasonPodNotReady, phase: "Degraded", told: 1,
			says: []string{"the volume workspace is being deleted", "its data ends with the pod", "before you suspend", "the operator has to see to it"},
		},
		"another resource": {
			reason: outcome.ReasonPodInitializing, phase: "Degraded", told: 1,
			says: []string{"the resource workspace is being deleted", "created again", "the operator has to see to it if this lasts"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := fixture.Now
			w := newWorld(t, claim.DeepCopy(), pod.DeepCopy())
			w.now = func() time.Time { return now }
			w.settle()
			w.becomesReady()
			now = now.Add(time.Minute)
			if test.deleted {
				if err := w.runtime.Delete(t.Context(), claim.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			generation := w.kroInstance().GetGeneration()
			status := fixture.KroReady(generation)
			waits := fixture.KroCondition("ResourcesReady", "False", generation, kroSays)
			waits["reason"] = "ResourceDeleting"
			status["state"], status["conditions"] = "IN_PROGRESS", []any{fixture.KroCondition("Ready", "False", generation, kroSays), waits}
			w.kroSays(status)
			w.events = nil
			w.settle()
			composed, ready := fixture.ConditionOf(t, w.inKCP, "Composed"), fixture.ConditionOf(t, w.inKCP, "Ready")
			if composed.Reason != outcome.ReasonBeingDeleted || ready.Status != metav1.ConditionFalse || ready.Reason != test.reason {
				t.Errorf("Composed: %s, Ready: %s %s", composed.Reason, ready.Status, ready.Reason)
			}
			for _, c := range []metav1.Condition{composed, ready} {
				for _, word := range test.says {
					if !strings.Contains(c.Message, word) {
						t.Errorf("%s does not say %q: %q", c.Type, word, c.Message)
					}
				}
			}
			if got := w.inKCP.Object["status"].(map[string]any)["phase"]; got != test.phase || len(w.events) != test.told {
				t.Errorf("the phase is %v, and %d events are told", got, len(w.events))
			}
			result, err := w.reconciler().Reconcile(t.Context(), testRequest)
			if err != nil || result.RequeueAfter != lookMost {
				t.Errorf("again in %v, error %v", result.RequeueAfter, err)
			}
		})
	}
}
