// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

const placementName = "sb-abcdefghijklmnopqrstuvwx23"

// internals are what no tenant may read: kro, its expressions and ids, names of the runtime cluster.
var internals = regexp.MustCompile(`(?i)\bkro\b|kro\.run|graph ?revision|resource ?graph|applyset|apply results|readyWhen|includeWhen|forEach|\$\{|schema\.|` +
	`CEL\b|expression|rest ?mapping|gvr|finalizer|node "|R[0-9a-f]{8}\b|sb-[a-z2-7]{26}|system:serviceaccount`)

// krosWords are messages as kro 0.9.4 forms them (the packages controller/instance, its applyset, and runtime), with the
// errors that client-go and the API server put into them.
var krosWords = map[string]string{
	"the graph is not there":         `latest issued graph revision not available`,
	"the graph is pending":           `latest issued graph revision 7 is pending`,
	"the graph failed":               `latest issued graph revision 7 failed`,
	"the graph is of another state":  `latest issued graph revision 7 has unknown state "Lost"`,
	"labels cannot be applied":       `finalizer/labeling failed: failed applying managed finalizer/labels: sandboxrunners.kro.run "web" is forbidden: User "system:serviceaccount:kro-system:kro" cannot patch resource "sandboxrunners" in API group "kro.run" in the namespace "` + placementName + `"`,
	"a kind is not known":            `resource reconciliation failed: project failed: RESTMapping failed for gateway.networking.k8s.io/v1, Kind=HTTPRoute: no matches for kind "HTTPRoute" in version "gateway.networking.k8s.io/v1"`,
	"two ApplySets":                  `resource reconciliation failed: apply failed: resource belongs to a different ApplySet`,
	"the inventory is edited":        `deletion blocked: validate deletion inventory: invalid applyset.kubernetes.io/id label: got "x", want "applyset-3b"`,
	"it waits for a node":            `awaiting resource readiness: waiting for node "boxR0a1b2c3d": readyWhen condition evaluated to false: "${box.status.readyReplicas == schema.spec.replicas}" (waiting for readiness)`,
	"it waits for data":              `awaiting resource readiness: node "boxR0a1b2c3d": dependent node "dataR0a1b2c3d" not ready: waiting (data pending)`,
	"it waits for what it refers to": `awaiting resource readiness: waiting for external reference "platformR0a1b2c3d": not found`,
	"an expression fails":            `resource error: node "boxR0a1b2c3d": failed to evaluate readyWhen expression: "${box.status.x}" (no such key: x)`,
	"a condition of inclusion":       `resource error: includeWhen "${schema.spec.mode == 'development'}": no such key: mode (data pending)`,
	"a collection":                   `resource error: node "boxR0a1b2c3d" collection resolve: resolve errors: [forEach "shards": collection size of 2000 is over the maximum collection size of 1000]`,
	"a right of kro's": `resource error: apply results contain errors: deployments.apps "box" is forbidden: User "system:serviceaccount:kro-system:kro" cannot patch resource "deployments" in API group "apps" in the namespace "` +
		placementName + `"`,
	"a right of kro's, then the tenant's part": `resource error: apply results contain errors: deployments.apps "box" is forbidden: User "system:serviceaccount:kro-system:kro" cannot patch resource "deployments"` + "\n" +
		`collection item 0: Service "box" is invalid: spec.ports[0].port: Invalid value: 0`,
	"a refused part, then kro's": `resource error: apply results contain errors: Deployment.apps "box" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0` + "\n" +
		`node "dataR0a1b2c3d" base eval: expression "${schema.spec.y}" did not return bool`,
	"a namespace that ends": `resource error: apply results contain errors: configmaps "x" is forbidden: unable to create new content in namespace ` + placementName + ` because it is being terminated`,
	"a quota": `resource error: apply results contain errors: node "dataR0a1b2c3d": persistentvolumeclaims "data" is forbidden: exceeded quota: sandbar, requested: requests.storage=60Gi, used: requests.storage=0, limited: requests.storage=50Gi` + "\n" +
		`gvr "apps/v1, Resource=deployments": timeout`,
	"a webhook":              `resource error: apply results contain errors: admission webhook "v.example.com" denied the request: image of ` + placementName + `/box is not signed`,
	"the API server is away": `resource reconciliation failed: failed to patch instance with applyset labels: Patch "https://10.0.0.1:443/apis/kro.run/v1alpha1/namespaces/` + placementName + `/sandboxrunners/web": dial tcp 10.0.0.1:443: connect: connection refused`,
	"it is being deleted":    `deleting apply-order wave 2: node "boxR0a1b2c3d" is being deleted`,
	"a webhook about kro":    `resource error: apply results contain errors: admission webhook "v.example.com" denied the request: system:serviceaccount:kro-system:kro-controller may not do that`,
	"nothing known":          `unknown instance state`,
}

// TestKrosInternalsReachNoTenant: whatever kro says, in each state and condition that it says it, the tenant's
// conditions and events have nothing of it.
func TestKrosInternalsReachNoTenant(t *testing.T) {
	for name, message := range krosWords {
		for _, state := range []string{"ERROR", "IN_PROGRESS", "FAILED", "DELETING"} {
			for _, condition := range []string{"ResourcesReady", "GraphResolved", "InstanceManaged", "Ready"} {
				for _, reason := range []string{"NotReady", resourceDeleting} {
					said := fixture.KroCondition(condition, "False", 1, message)
					said["reason"] = reason
					o := Outcome{Instance: fixture.KroInstance(map[string]any{"state": state, "conditions": []any{said}})}
					o.Finding = nil
					if names := BeingDeleted(o.Instance); len(names) > 0 {
						o.Finding = DeletedCause(names, nil)
					}
					readsNothing(t, fmt.Sprintf("%s, %s, %s, %s", name, state, condition, reason), o)
				}
			}
		}
	}
}

// TestTheRuntimeClustersNamesReachNoTenant: the same for errors of our own writing.
func TestTheRuntimeClustersNamesReachNoTenant(t *testing.T) {
	invalid := apierrors.NewInvalid(fixture.Thing.GVK.GroupKind(), "web", field.ErrorList{field.Invalid(field.NewPath("spec", "x"), "y", "is no number")})
	for name, o := range map[string]Outcome{
		"a refused instance":               {Composing: fmt.Errorf("applying SandboxRunner %s/web: %w", placementName, invalid)},
		"a refused instance without a why": {Composing: fmt.Errorf("applying SandboxRunner %s/web: %w", placementName, apierrors.NewInvalid(fixture.Thing.GVK.GroupKind(), "web", nil))},
		"a broken connection":              {Composing: fmt.Errorf("applying SandboxRunner %s/web: %w", placementName, errors.New("connection refused"))},
		"a placement that is not taken":    {Placing: fmt.Errorf("applying Namespace %s: %w", placementName, errors.New("no"))},
		"a right of the provider":          {Composing: fmt.Errorf("trying the pod: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New(`User "system:serviceaccount:sandbar-system:controllers" cannot patch`)))},
	} {
		readsNothing(t, name, o)
	}
	s := fixture.NewScope()
	status, err := BuildStatus(s, Outcome{Composing: fmt.Errorf("applying SandboxRunner %s/web: %w", placementName, invalid)})
	if err != nil {
		t.Fatal(err)
	}
	s = fixture.Reporting(t, s, status)
	if got, want := fixture.ConditionOf(t, s.Object(), "Composed").Message, `correct the spec: spec.x: Invalid value: "y": is no number`; got != want {
		t.Errorf("a refused spec says %q, want %q", got, want)
	}
}

func readsNothing(t *testing.T, name string, o Outcome) {
	t.Helper()
	s := fixture.NewScope()
	status, err := BuildStatus(s, o)
	if err != nil {
		t.Fatal(err)
	}
	s = fixture.Reporting(t, s, status)
	for _, c := range []string{"Placed", "Composed", "Suspended", "Ready"} {
		read(t, name+": "+c, fixture.ConditionOf(t, s.Object(), c))
	}
	message := fixture.ConditionOf(t, s.Object(), "Composed").Message
	if event := BuildEvent(s, string(sandbarv1alpha1.InstanceFailed), message, time.Now()); internals.MatchString(event.Message) {
		t.Errorf("%s: the event says %q", name, event.Message)
	}
}

func read(t *testing.T, name string, c metav1.Condition) {
	t.Helper()
	if found := internals.FindString(c.Message); found != "" {
		t.Errorf("%s has %q: %s", name, found, c.Message)
	}
	if c.Status == metav1.ConditionFalse && strings.TrimSpace(c.Message) == "" {
		t.Errorf("%s says nothing", name)
	}
}

// What a tenant can correct still reaches them.
func TestWhatIsTheTenantsToCorrectIsTold(t *testing.T) {
	for name, want := range map[string]string{
		"a right of kro's, then the tenant's part": "the runtime cluster refuses a part of the instance: spec.ports[0].port: Invalid value: 0; correct the spec",
		"a refused part, then kro's":               "the runtime cluster refuses a part of the instance: spec.replicas: Invalid value: -1: must be greater than or equal to 0; correct the spec",
		"a quota": "the instance's quota has no room: exceeded quota: sandbar, requested: requests.storage=60Gi, used: requests.storage=0, limited: requests.storage=50Gi" +
			"; ask for less, or ask the operator for a larger quota. It starts as soon as there is room",
		"a webhook":        "the runtime cluster refuses a part of the instance: image of the instance's namespace is not signed; correct the spec",
		"a right of kro's": "the Template thing cannot be composed with this spec, and the operator has to correct it; nothing but another spec may help meanwhile",
	} {
		s := fixture.NewScope()
		status, err := BuildStatus(s, Outcome{Instance: fixture.KroInstance(map[string]any{"state": "ERROR", "conditions": []any{
			fixture.KroCondition("Ready", "False", 1, "general"), fixture.KroCondition("ResourcesReady", "False", 1, krosWords[name]),
		}})})
		if err != nil {
			t.Fatal(err)
		}
		s = fixture.Reporting(t, s, status)
		if got := fixture.ConditionOf(t, s.Object(), "Composed").Message; got != want {
			t.Errorf("%s: Composed says %q, want %q", name, got, want)
		}
	}
}
