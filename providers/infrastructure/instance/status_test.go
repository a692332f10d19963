// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func newQuantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

// kroReady is the status that kro writes when all is well.
func kroReady(generation int64) map[string]any {
	return map[string]any{
		"state":            "ACTIVE",
		"conditions":       []any{kroCondition("Ready", "True", generation, "")},
		"color":            "red",
		"controlSecretRef": map[string]any{"name": "sandbar-control", "namespace": "ns"},
		"refs": map[string]any{
			"control": map[string]any{"name": "control", "namespace": "ns"},
			"public":  "yes",
		},
	}
}

func kroCondition(name, status string, generation int64, message string) map[string]any {
	return map[string]any{"type": name, "status": status, "observedGeneration": generation, "reason": "R", "message": message}
}

func kroInstance(status map[string]any) *unstructured.Unstructured {
	instance := buildInstance(newScope())
	instance.SetGeneration(1)
	instance.Object["status"] = status
	return instance
}

func conditionOf(t *testing.T, obj *unstructured.Unstructured, name string) metav1.Condition {
	t.Helper()
	status, err := readStatus(obj)
	if err != nil {
		t.Fatal(err)
	}
	condition := meta.FindStatusCondition(status.Conditions, name)
	if condition == nil {
		t.Fatalf("no condition %s in %v", name, obj.Object["status"])
	}
	return *condition
}

func TestTheStatusSaysHowFarAnInstanceIs(t *testing.T) {
	invalid := apierrors.NewInvalid(thing.gvk.GroupKind(), "web", nil)
	for name, test := range map[string]struct {
		outcome  outcome
		suspend  bool
		phase    sandbarv1alpha1.InstancePhase
		placed   string
		composed string
		ready    string
	}{
		"not placed": {
			outcome: outcome{placing: errors.New("connection refused")},
			phase:   "Pending", placed: reasonRuntimeError, composed: reasonWaiting, ready: reasonNotComposed,
		},
		"waiting for a former placement": {
			outcome: outcome{placing: errTerminating},
			phase:   "Pending", placed: reasonTerminating, composed: reasonWaiting, ready: reasonNotComposed,
		},
		"spec refused by the runtime cluster": {
			outcome: outcome{composing: invalid},
			phase:   "Failed", placed: reasonPlaced, composed: reasonSpecRefused, ready: reasonNotComposed,
		},
		"kro has not looked yet": {
			outcome: outcome{instance: kroInstance(nil)},
			phase:   "Materializing", placed: reasonPlaced, composed: reasonComposing, ready: reasonNotComposed,
		},
		"kro speaks of the former spec": {
			outcome: outcome{instance: kroInstance(kroReady(0))},
			phase:   "Materializing", placed: reasonPlaced, composed: reasonComposing, ready: reasonNotComposed,
		},
		"kro is at work": {
			outcome: outcome{instance: kroInstance(map[string]any{
				"state": "IN_PROGRESS", "conditions": []any{kroCondition("Ready", "Unknown", 1, "awaiting")},
			})},
			phase: "Materializing", placed: reasonPlaced, composed: reasonComposing, ready: reasonNotComposed,
		},
		"kro meets a quota": {
			outcome: outcome{instance: kroInstance(map[string]any{
				"state": "ERROR", "conditions": []any{
					kroCondition("Ready", "False", 1, "no"),
					kroCondition("ResourcesReady", "False", 1, "pods is forbidden: exceeded quota"),
				},
			})},
			phase: "PendingCapacity", placed: reasonPlaced, composed: reasonQuota, ready: reasonPodInitializing,
		},
		"kro failed": {
			outcome: outcome{instance: kroInstance(map[string]any{
				"state": "ERROR", "conditions": []any{kroCondition("ResourcesReady", "False", 1, "no such field")},
			})},
			phase: "Failed", placed: reasonPlaced, composed: reasonGraphFailed, ready: reasonNotComposed,
		},
		"refused before kro saw it": {
			outcome: outcome{composing: fmt.Errorf("composing: %w", &refusal{reason: "PodTemplateInvalid", message: "no image"})},
			phase:   "Failed", placed: reasonPlaced, composed: "PodTemplateInvalid", ready: reasonNotComposed,
		},
		"a reference of the contract is missing": {
			outcome: outcome{instance: kroInstance(map[string]any{
				"state": "ACTIVE", "conditions": []any{kroCondition("Ready", "True", 1, "")},
			})},
			phase: "Materializing", placed: reasonPlaced, composed: reasonComposed, ready: reasonAwaitingOutputs,
		},
		"ready": {
			outcome: outcome{instance: kroInstance(kroReady(1))},
			phase:   "Ready", placed: reasonPlaced, composed: reasonComposed, ready: reasonResourcesReady,
		},
		"ready by a graph with conditions of its own": {
			outcome: outcome{instance: func() *unstructured.Unstructured {
				status := kroReady(1)
				status["conditions"] = []any{kroCondition("Warm", "True", 1, "")}
				return kroInstance(status)
			}()},
			phase: "Ready", placed: reasonPlaced, composed: reasonComposed, ready: reasonResourcesReady,
		},
		"suspended": {
			outcome: outcome{instance: kroInstance(kroReady(1))}, suspend: true,
			phase: "Suspended", placed: reasonPlaced, composed: reasonComposed, ready: reasonPodDeleted,
		},
		"being deleted": {
			outcome: outcome{deleting: "waiting"},
			phase:   "Deleting", placed: reasonDeleting, composed: reasonDeleting, ready: reasonDeleting,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope()
			if test.suspend {
				s.object.Object["spec"].(map[string]any)["suspended"] = true
			}
			status, err := buildStatus(s, test.outcome)
			if err != nil {
				t.Fatal(err)
			}
			s.object.Object["status"] = status
			got := map[string]string{"phase": status["phase"].(string)}
			want := map[string]string{"phase": string(test.phase), "Placed": test.placed, "Composed": test.composed, "Ready": test.ready}
			for _, name := range []string{"Placed", "Composed", "Ready"} {
				got[name] = conditionOf(t, s.object, name).Reason
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The runner's Service is there in development mode only; an instance in production is Ready
// without it, and one in development is not.
func TestReadyWaitsForTheRunnerInDevelopmentOnly(t *testing.T) {
	for mode, want := range map[string]string{"": reasonResourcesReady, "production": reasonResourcesReady, "development": reasonAwaitingOutputs} {
		t.Run("mode "+mode, func(t *testing.T) {
			s := newScope()
			s.dataPlane.Components = map[string]sandbarv1alpha1.Component{"api": {Endpoints: map[string]sandbarv1alpha1.Endpoint{
				"sync": {ServiceRef: "status.development.api.controlServiceRef", Port: "control", Methods: []string{"POST"}},
			}}}
			kro := kroInstance(kroReady(1))
			kro.Object["spec"] = map[string]any{"mode": mode}
			status, err := buildStatus(s, outcome{instance: kro})
			if err != nil {
				t.Fatal(err)
			}
			s.object.Object["status"] = status
			if got := conditionOf(t, s.object, "Ready").Reason; got != want {
				t.Errorf("Ready has reason %q, want %q", got, want)
			}
		})
	}
}

func TestKrosMessageReachesTheTenantShortened(t *testing.T) {
	long := "\x1b[2J" + strings.Repeat("ä", maxMessage)
	instance := kroInstance(map[string]any{"state": "ERROR", "conditions": []any{
		kroCondition("Ready", "False", 1, "general"), kroCondition("ResourcesReady", "False", 1, long),
	}})
	s := newScope()
	status, err := buildStatus(s, outcome{instance: instance})
	if err != nil {
		t.Fatal(err)
	}
	s.object.Object["status"] = status
	got := conditionOf(t, s.object, "Composed").Message
	if len(got) > maxMessage || !strings.HasPrefix(got, "[2Jää") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("the message has %d bytes and ends with %q", len(got), got[len(got)-8:])
	}
}

func TestOfTheGraphsStatusTenantsSeeWhatIsNotPrivate(t *testing.T) {
	instance := kroInstance(kroReady(1))
	instance.Object["status"].(map[string]any)["phase"] = "a graph's"
	status, err := buildStatus(newScope(), outcome{instance: instance})
	if err != nil {
		t.Fatal(err)
	}
	if status["phase"] != "Ready" {
		t.Errorf("a graph decides the phase: %v", status["phase"])
	}
	delete(status, "conditions")
	want := map[string]any{
		"phase": "Ready", "observedGeneration": int64(1), "color": "red",
		"refs": map[string]any{"public": "yes"},
		"dataPlane": map[string]any{
			"url":   "https://sandbar.example.test/base/dataplane/clusters/" + testCluster + "/namespaces/team-a/things/web",
			"verbs": []any{"log", "renew", "status"},
		},
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAParentThatHidingEmptiesIsHiddenToo(t *testing.T) {
	fields := map[string]any{"refs": map[string]any{"control": map[string]any{"name": "a"}}, "other": "b"}
	removePath(fields, []string{"refs", "control"})
	removePath(fields, []string{"absent", "x"})
	removePath(fields, []string{"other", "x"})
	if diff := cmp.Diff(map[string]any{"other": "b"}, fields); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAConditionKeepsItsTimeUntilItsStatusChanges(t *testing.T) {
	s := newScope()
	long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	first, err := buildStatus(s, outcome{instance: kroInstance(kroReady(1))})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range first["conditions"].([]any) {
		item.(map[string]any)["lastTransitionTime"] = long.UTC().Format(time.RFC3339)
	}
	first["activity"] = map[string]any{"lastActiveTime": long.UTC().Format(time.RFC3339)}
	s.object.Object["status"] = first
	again, err := buildStatus(s, outcome{instance: kroInstance(kroReady(1))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("a status that says the same differs (-want +got):\n%s", diff)
	}
	s.object.Object["status"], err = buildStatus(s, outcome{instance: kroInstance(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if got := conditionOf(t, s.object, "Ready"); got.LastTransitionTime.Equal(&long) {
		t.Error("Ready changed and kept its time")
	}
	if got := conditionOf(t, s.object, "Placed"); !got.LastTransitionTime.Equal(&long) {
		t.Error("Placed did not change and lost its time")
	}
}
