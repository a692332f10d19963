// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

func TestTheStatusSaysHowFarAnInstanceIs(t *testing.T) {
	invalid := apierrors.NewInvalid(fixture.Thing.GVK.GroupKind(), "web", nil)
	for name, test := range map[string]struct {
		outcome  Outcome
		suspend  bool
		phase    sandbarv1alpha1.InstancePhase
		placed   string
		composed string
		ready    string
	}{
		"not placed": {
			outcome: Outcome{Placing: errors.New("connection refused")},
			phase:   "Pending", placed: ReasonRuntimeError, composed: ReasonWaiting, ready: reasonNotComposed,
		},
		"waiting for a former placement": {
			outcome: Outcome{Placing: ErrTerminating},
			phase:   "Pending", placed: reasonTerminating, composed: ReasonWaiting, ready: reasonNotComposed,
		},
		"spec refused by the runtime cluster": {
			outcome: Outcome{Composing: invalid},
			phase:   "Failed", placed: ReasonPlaced, composed: ReasonSpecRefused, ready: reasonNotComposed,
		},
		"kro has not looked yet": {
			outcome: Outcome{Instance: fixture.KroInstance(nil)},
			phase:   "Materializing", placed: ReasonPlaced, composed: ReasonComposing, ready: reasonNotComposed,
		},
		"kro speaks of the former spec": {
			outcome: Outcome{Instance: fixture.KroInstance(fixture.KroReady(0))},
			phase:   "Materializing", placed: ReasonPlaced, composed: ReasonComposing, ready: reasonNotComposed,
		},
		"kro is at work": {
			outcome: Outcome{Instance: fixture.KroInstance(map[string]any{
				"state": "IN_PROGRESS", "conditions": []any{fixture.KroCondition("Ready", "Unknown", 1, "awaiting")},
			})},
			phase: "Materializing", placed: ReasonPlaced, composed: ReasonComposing, ready: reasonNotComposed,
		},
		"kro meets a quota": {
			outcome: Outcome{Instance: fixture.KroInstance(map[string]any{
				"state": "ERROR", "conditions": []any{
					fixture.KroCondition("Ready", "False", 1, "no"),
					fixture.KroCondition("ResourcesReady", "False", 1, "pods is forbidden: exceeded quota"),
				},
			})},
			phase: "PendingCapacity", placed: ReasonPlaced, composed: ReasonQuota, ready: ReasonPodInitializing,
		},
		"kro failed": {
			outcome: Outcome{Instance: fixture.KroInstance(map[string]any{
				"state": "ERROR", "conditions": []any{fixture.KroCondition("ResourcesReady", "False", 1, "no such field")},
			})},
			phase: "Failed", placed: ReasonPlaced, composed: ReasonGraphFailed, ready: reasonNotComposed,
		},
		"refused before kro saw it": {
			outcome: Outcome{Composing: fmt.Errorf("composing: %w", &RefusalError{Reason: "PodTemplateInvalid", Message: "no image"})},
			phase:   "Failed", placed: ReasonPlaced, composed: "PodTemplateInvalid", ready: reasonNotComposed,
		},
		"a reference of the contract is missing": {
			outcome: Outcome{Instance: fixture.KroInstance(map[string]any{
				"state": "ACTIVE", "conditions": []any{fixture.KroCondition("Ready", "True", 1, "")},
			})},
			phase: "Materializing", placed: ReasonPlaced, composed: reasonComposed, ready: reasonAwaitingOutputs,
		},
		"ready": {
			outcome: Outcome{Instance: fixture.KroInstance(fixture.KroReady(1))},
			phase:   "Ready", placed: ReasonPlaced, composed: reasonComposed, ready: reasonResourcesReady,
		},
		"ready by a graph with conditions of its own": {
			outcome: Outcome{Instance: func() *unstructured.Unstructured {
				status := fixture.KroReady(1)
				status["conditions"] = []any{fixture.KroCondition("Warm", "True", 1, "")}
				return fixture.KroInstance(status)
			}()},
			phase: "Ready", placed: ReasonPlaced, composed: reasonComposed, ready: reasonResourcesReady,
		},
		"suspended": {
			outcome: Outcome{Instance: fixture.KroInstance(fixture.KroReady(1))}, suspend: true,
			phase: "Suspended", placed: ReasonPlaced, composed: reasonComposed, ready: reasonPodDeleted,
		},
		"being deleted": {
			outcome: Outcome{Deleting: "waiting"},
			phase:   "Deleting", placed: ReasonDeleting, composed: ReasonDeleting, ready: ReasonDeleting,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fixture.NewScope()
			if test.suspend {
				s.Object().Object["spec"].(map[string]any)["suspended"] = true
			}
			status, err := BuildStatus(s, test.outcome)
			if err != nil {
				t.Fatal(err)
			}
			s = fixture.Reporting(t, s, status)
			got := map[string]string{"phase": status["phase"].(string)}
			want := map[string]string{"phase": string(test.phase), "Placed": test.placed, "Composed": test.composed, "Ready": test.ready}
			for _, name := range []string{"Placed", "Composed", "Ready"} {
				got[name] = fixture.ConditionOf(t, s.Object(), name).Reason
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheStatusHasTheCreatorThatTheObjectNames(t *testing.T) {
	for name, want := range map[string]any{"": nil, "oidc:ann@example.com": map[string]any{"username": "oidc:ann@example.com"}} {
		s := fixture.NewScope()
		if name != "" {
			s.Object().SetAnnotations(map[string]string{sandbarv1alpha1.AnnotationCreatedBy: name})
		}
		status, err := BuildStatus(s, Outcome{Instance: fixture.KroInstance(fixture.KroReady(1))})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, status["createdBy"]); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
}

// The runner's Service is there in development mode only; an instance in production is Ready
// without it, and one in development is not.
func TestReadyWaitsForTheRunnerInDevelopmentOnly(t *testing.T) {
	for mode, want := range map[string]string{"": reasonResourcesReady, "production": reasonResourcesReady, "development": reasonAwaitingOutputs} {
		t.Run("mode "+mode, func(t *testing.T) {
			s := fixture.NewScope()
			s.DataPlane().Components = map[string]sandbarv1alpha1.Component{"api": {Endpoints: map[string]sandbarv1alpha1.Endpoint{
				"sync": {ServiceRef: "status.development.api.controlServiceRef", Port: "control", Methods: []string{"POST"}},
			}}}
			kro := fixture.KroInstance(fixture.KroReady(1))
			kro.Object["spec"] = map[string]any{"mode": mode}
			status, err := BuildStatus(s, Outcome{Instance: kro})
			if err != nil {
				t.Fatal(err)
			}
			s = fixture.Reporting(t, s, status)
			if got := fixture.ConditionOf(t, s.Object(), "Ready").Reason; got != want {
				t.Errorf("Ready has reason %q, want %q", got, want)
			}
		})
	}
}

// kro's messages hold expressions of the graph, which the tenant has not written.
func TestATenantIsToldNothingOfTheGraphsExpressions(t *testing.T) {
	const waits = `awaiting resource readiness: waiting for node "box": readyWhen condition evaluated to false: ` +
		`"box.status.?replicas.orValue(0) == box.spec.replicas" (waiting for readiness)`
	for name, test := range map[string]struct{ state, message, want string }{
		"it waits for a readiness": {"IN_PROGRESS", waits, "the resources are being made; not ready yet: box"},
		"it waits for several": {
			"IN_PROGRESS", waits + `; node "data": no observed state; waiting for external reference "platform": not found`,
			"the resources are being made; not ready yet: box, data, platform",
		},
		"it has nothing to say": {"IN_PROGRESS", "", "the resources are being made"},
		"an expression fails": {
			"ERROR", `resource error: node "box": failed to evaluate expression: "${schema.spec.x.y}": no such key: y`,
			"the Template thing cannot be composed with this spec, and the operator has to correct it; nothing but another spec may help meanwhile",
		},
		"the API server refuses a part": {
			"ERROR", `apply results contain errors: Deployment.apps "box" is invalid: spec.template.spec.containers[0].image: Required value`,
			"the runtime cluster refuses a part of the instance: spec.template.spec.containers[0].image: Required value; correct the spec",
		},
		"a webhook refuses a part": {
			"ERROR", "\x1b[2Jadmission webhook \"w\" denied the request: no latest tags",
			"the runtime cluster refuses a part of the instance: no latest tags; correct the spec",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fixture.NewScope()
			status, err := BuildStatus(s, Outcome{Instance: fixture.KroInstance(map[string]any{"state": test.state, "conditions": []any{
				fixture.KroCondition("Ready", "False", 1, "general"), fixture.KroCondition("ResourcesReady", "False", 1, test.message),
			}})})
			if err != nil {
				t.Fatal(err)
			}
			if test.message == "" {
				status, err = BuildStatus(s, Outcome{Instance: fixture.KroInstance(map[string]any{"state": test.state, "conditions": []any{
					fixture.KroCondition("Ready", "False", 1, ""),
				}})})
			}
			if err != nil {
				t.Fatal(err)
			}
			s = fixture.Reporting(t, s, status)
			if got := fixture.ConditionOf(t, s.Object(), "Composed").Message; got != test.want {
				t.Errorf("Composed says %q, want %q", got, test.want)
			}
		})
	}
}

func TestAMessageIsShortened(t *testing.T) {
	v := Verdict{message: "\x1b[2J" + strings.Repeat("ä", MaxMessage)}
	got := v.condition("Composed").Message
	if len(got) > MaxMessage || !strings.HasPrefix(got, "[2Jää") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("the message has %d bytes and ends with %q", len(got), got[len(got)-8:])
	}
}

func TestOfTheGraphsStatusTenantsSeeWhatIsNotPrivate(t *testing.T) {
	instance := fixture.KroInstance(fixture.KroReady(1))
	instance.Object["status"].(map[string]any)["phase"] = "a graph's"
	status, err := BuildStatus(fixture.NewScope(), Outcome{Instance: instance})
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
			"url":   "https://sandbar.example.test/base/dataplane/clusters/" + fixture.Cluster + "/namespaces/team-a/things/web",
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
	s := fixture.NewScope()
	long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	first, err := BuildStatus(s, Outcome{Instance: fixture.KroInstance(fixture.KroReady(1))})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range first["conditions"].([]any) {
		item.(map[string]any)["lastTransitionTime"] = long.UTC().Format(time.RFC3339)
	}
	first["activity"] = map[string]any{"lastActiveTime": long.UTC().Format(time.RFC3339)}
	s = fixture.Reporting(t, s, first)
	again, err := BuildStatus(s, Outcome{Instance: fixture.KroInstance(fixture.KroReady(1))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("a status that says the same differs (-want +got):\n%s", diff)
	}
	changed, err := BuildStatus(s, Outcome{Instance: fixture.KroInstance(nil)})
	if err != nil {
		t.Fatal(err)
	}
	s = fixture.Reporting(t, s, changed)
	if got := fixture.ConditionOf(t, s.Object(), "Ready"); got.LastTransitionTime.Equal(&long) {
		t.Error("Ready changed and kept its time")
	}
	if got := fixture.ConditionOf(t, s.Object(), "Placed"); !got.LastTransitionTime.Equal(&long) {
		t.Error("Placed did not change and lost its time")
	}
}
