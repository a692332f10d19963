// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// attachedAs is the status of a route with a condition.
func attachedAs(status, reason, message string) string {
	return `conditions: [{type: Attached, status: "` + status + `", reason: ` + reason + `, message: '` + message + `'}]`
}

func TestASandboxIsReadyWhenItsRequestsAreLed(t *testing.T) {
	is := attachedAs("True", "RouteAttached", "requests with the ID are led as the rules say")
	isReady := "phase: Ready, " + rowsOf(readyRow) + ", " + conditionsOf("")
	taken := Verdict{Reason: ReasonNameTaken, Message: "there is another SandboxRoute preview"}
	for name, row := range map[string]struct {
		group    string // its status; isReady if it is empty
		route    string // its status; empty for no route
		change   func(route *unstructured.Unstructured)
		look     func(look *Look)
		verdict  Verdict // of the route; succeeded if it is zero
		old      sandbarv1alpha1.InstancePhase
		without  bool // the Sandbox has no routing
		phase    sandbarv1alpha1.InstancePhase
		applied  string // reasons, after +, - or ? for the status
		attached string
		ready    string
		says     string // of Ready
	}{
		"it was made a moment ago": {phase: "Materializing", applied: "+ApplySucceeded", attached: "?Pending", ready: "-Pending", says: "has not looked at the SandboxRoute"},
		"it was never looked at":   {route: "observedGeneration: 0", phase: "Materializing", applied: "+ApplySucceeded", attached: "?Pending", ready: "-Pending"},
		"the Gateway says nothing": {
			route: attachedAs("Unknown", "Pending", "the controller of Gateway edge/public has not said yet"),
			phase: "Materializing", applied: "+ApplySucceeded", attached: "?Pending", ready: "-Pending", says: "Gateway edge/public",
		},
		"it is attached": {route: is, phase: "Ready", applied: "+ApplySucceeded", attached: "+RouteAttached", ready: "+WorkloadsReady"},
		"it is attached before the copies are ready": {
			group: "phase: Materializing, " + rowsOf("ready: false") + ", " + conditionsOf("Composed reason: Composing, message: m"), route: is,
			phase: "Materializing", applied: "+ApplySucceeded", attached: "+RouteAttached", ready: "-ResourcesPending",
		},
		"it was changed a moment ago": {
			route: is, change: func(r *unstructured.Unstructured) { r.SetGeneration(2) }, old: "Ready",
			phase: "Materializing", applied: "+ApplySucceeded", attached: "?Pending", ready: "-Pending",
		},
		"the Baseline does not admit it": {
			route: attachedAs("False", "NotAllowed", "spec.gateway.hostnames[0]: hostname a.b is not one that Baseline shop admits; ask the operator to add it to spec.routing.gateway.hostnames of the Baseline"),
			phase: "Materializing", applied: "+ApplySucceeded", attached: "-NotAllowed", ready: "-NotAllowed",
			says: "spec.routing.gateway.hostnames[0]: hostname a.b is not one that Baseline shop admits; ask the operator to add it to spec.routing.gateway.hostnames of the Baseline",
		},
		"the Baseline admits it no more": {route: attachedAs("False", "NotAllowed", "m"), old: "Ready", phase: "Degraded", applied: "+ApplySucceeded", attached: "-NotAllowed", ready: "-NotAllowed"},
		"a port is not there": {
			route: attachedAs("False", "ResolveFailed", "spec.rules[1].backends[0].component.port: component api has no port admin"), old: "Degraded",
			phase: "Degraded", applied: "+ApplySucceeded", attached: "-ResolveFailed", ready: "-ResolveFailed", says: "spec.routing.interceptions[1].routeTo.port: component api",
		},
		"the provider of routes is not offered": {
			route: attachedAs("False", "ProviderUnavailable", "spec.provider: istio is not offered here, and gateway is"),
			phase: "Materializing", applied: "+ApplySucceeded", attached: "-ProviderUnavailable", ready: "-ProviderUnavailable", says: "spec.routing.provider: istio is not offered here",
		},
		"it cannot be":                           {route: attachedAs("False", "InvalidSpec", "spec.selectorHeaderName: m"), phase: "Failed", applied: "+ApplySucceeded", attached: "-InvalidSpec", ready: "-InvalidSpec", says: "spec.routing.key.headerName: m"},
		"its name is taken":                      {verdict: taken, phase: "Degraded", applied: "-NameTaken", attached: "-NameTaken", ready: "-NameTaken", says: "another SandboxRoute"},
		"the name of the group is taken, too":    {verdict: taken, look: func(l *Look) { l.Copies.Part, l.Copies.Verdict = nil, Verdict{Reason: ReasonApplyFailed} }, phase: "Pending", applied: "-ApplyFailed", attached: "-NameTaken", ready: "-ApplyFailed"},
		"another one takes its place":            {route: is, change: goes, verdict: replaced("SandboxRoute", key), old: "Ready", phase: "Materializing", applied: "-ApplyFailed", attached: "?Pending", ready: "-ApplyFailed", says: "another one is made"},
		"it is not needed any more":              {route: is, change: goes, without: true, old: "Ready", phase: "Materializing", applied: "+ApplySucceeded", attached: "-ResourcesPending", ready: "-ResourcesPending", says: "waiting for SandboxRoute preview to be removed"},
		"it is not needed any more, and is gone": {without: true, verdict: succeeded("SandboxRoute"), phase: "Ready", applied: "+ApplySucceeded", attached: "+NoRouting", ready: "+WorkloadsReady"},
		"nobody follows routes": {
			verdict: NotFollowed("SandboxRoute"), look: func(l *Look) { l.Route.Unseen = true }, old: "Ready",
			phase: "Degraded", applied: "-ApplyFailed", attached: "?Pending", ready: "-ApplyFailed", says: "waiting until the provider follows the kind SandboxRoute",
		},
		"kcp does not say how it is, and it was attached": {
			look: func(l *Look) {
				l.Route.Unseen, l.Route.Applied = true, Applied{}
				l.Old.Conditions = []metav1.Condition{{Type: "Attached", Status: metav1.ConditionTrue, Reason: "RouteAttached", Message: "as it was"}}
			}, old: "Ready",
			phase: "Ready", applied: "+ApplySucceeded", attached: "+RouteAttached", ready: "+WorkloadsReady",
		},
		"it is suspended, and the route stays": {
			group: "phase: Suspended, suspension: {cause: ByUser, since: 2026-01-01T00:00:00Z}, " + rowsOf("ready: false") + ", " + conditionsOf("Ready reason: SandboxPodDeleted, message: there are no pods"), route: is,
			look: func(l *Look) { l.Suspended = "ByUser" }, phase: "Suspended", applied: "+ApplySucceeded", attached: "+RouteAttached", ready: "-SandboxPodDeleted",
		},
		"it is being deleted": {route: is, change: goes, look: func(l *Look) { l.Deleting = "waiting for SandboxRoute preview to be removed" }, phase: "Deleting", applied: "-Deleting", attached: "-Deleting", ready: "-Deleting"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := routed(t)
			if row.without {
				unset("spec", "routing")(obj)
			}
			look := LookAt(obj, sandbarv1alpha1.InstanceStatus{Phase: row.old}, words(), now)
			if row.group == "" {
				row.group = isReady
			}
			look.Copies.Part, look.Copies.Verdict = groupOf(t, obj, row.group), succeeded("SandboxGroup")
			if row.route != "" {
				look.Route.Part = routeOfSandbox(t, routed(t), row.route)
			}
			if row.change != nil {
				row.change(look.Route.Part)
			}
			if look.Route.Verdict = row.verdict; row.verdict == (Verdict{}) {
				look.Route.Verdict = succeeded("SandboxRoute")
			}
			if row.look != nil {
				row.look(&look)
			}
			status, _ := rolled(t, look)
			if status.Phase != row.phase {
				t.Errorf("the phase is %s, want %s", status.Phase, row.phase)
			}
			for condition, want := range map[string]string{"Applied": row.applied, "Attached": row.attached, "Ready": row.ready} {
				c := meta.FindStatusCondition(status.Conditions, condition)
				if got := map[metav1.ConditionStatus]string{"True": "+", "False": "-", "Unknown": "?"}[c.Status] + c.Reason; got != want {
					t.Errorf("%s is %s (%s), want %s", condition, got, c.Message, want)
				}
				if condition == "Ready" && !strings.Contains(c.Message, row.says) {
					t.Errorf("Ready says %q, want %q", c.Message, row.says)
				}
			}
		})
	}
}

func goes(route *unstructured.Unstructured) { route.SetDeletionTimestamp(&metav1.Time{Time: now}) }

func TestAStatusHasTheEndpointsOfTheRoute(t *testing.T) {
	obj := routed(t)
	look := LookAt(obj, sandbarv1alpha1.InstanceStatus{}, words(), now)
	look.Copies.Part, look.Copies.Verdict = groupOf(t, obj, "phase: Ready, "+rowsOf(readyRow)), succeeded("SandboxGroup")
	look.Route.Part, look.Route.Verdict = routeOfSandbox(t, obj, `endpoints: [
		{rule: frontend, url: "https://a.example.com/", hostname: a.example.com, path: /},
		{rule: frontend, hostname: "*.example.com", path: /},
		{rule: frontend-2, url: "https://a.example.com", hostname: a.example.com}]`), succeeded("SandboxRoute")
	_, told := rolled(t, look)
	want := sandbarv1alpha1.SandboxWorkloadsStatus{
		RoutingKey:     &sandbarv1alpha1.RoutingKey{HeaderName: "x-sandbox-id", Value: "sbx-abcd1234"},
		UnderlyingRefs: &sandbarv1alpha1.SandboxUnderlyingRefs{SandboxGroupName: "preview", SandboxRouteName: "preview"},
		Endpoints: []sandbarv1alpha1.SandboxEndpoint{
			{Name: "frontend", URL: "https://a.example.com/", Hostname: "a.example.com", Path: "/", Interception: "frontend"},
			{Name: "frontend-3", Hostname: "*.example.com", Path: "/", Interception: "frontend"},
			{Name: "frontend-2", URL: "https://a.example.com", Hostname: "a.example.com", Interception: "frontend-2"},
		},
		Workloads: told.Workloads,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fields, err := RollUp(look)
	if err != nil {
		t.Fatal(err)
	}
	look.Object.Object["status"] = fields
	if !TellsOfRoute(look.Object) {
		t.Error("nobody looks for the route when the routing is gone")
	}
	look.Route = Piece{Kind: "SandboxRoute", Wanted: true, Unseen: true}
	if _, told = rolled(t, look); cmp.Diff(want, told) != "" {
		t.Errorf("while nobody knows of the route:\n%s", cmp.Diff(want, told))
	}
	look.Route = Piece{Kind: "SandboxRoute"}
	if _, told = rolled(t, look); told.Endpoints != nil || told.UnderlyingRefs.SandboxRouteName != "" {
		t.Errorf("without a route: %+v", told)
	}
}
