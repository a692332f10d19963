// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/pkg/route"
)

func TestTheRouteOfASandboxIsTheGolden(t *testing.T) {
	for name, change := range map[string]func(*unstructured.Unstructured){
		"gateway": unset("none"),
		"proxy": func(obj *unstructured.Unstructured) {
			set("proxy", "spec", "routing", "provider")(obj)
			unset("spec", "routing", "gateway")(obj)
			unset("spec", "routing", "key")(obj)
		},
	} {
		obj := routed(t)
		change(obj)
		got, err := yaml.Marshal(PlanRoute(obj, words()).Part)
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", "route-"+name+".golden.yaml"), got)
	}
}

// The controller of routes reads what is planned here.
func TestTheRouteOfASandboxIsOneThatTheGatewayCanHave(t *testing.T) {
	example, err := os.ReadFile("../../../examples/tenant/sandbox-routing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, obj := range map[string]*unstructured.Unstructured{"that of the tests": routed(t), "the example": objectOf(t, string(example))} {
		read := &sandbarv1alpha1.SandboxRoute{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(PlanRoute(obj, words()).Part.Object, read, true); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := route.Check(&read.Spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if refused := PlanCopies(obj, words(), false).Refused; refused.Reason != "" && name == "the example" {
			t.Errorf("%s is refused: %+v", name, refused)
		}
	}
}

func TestASandboxWithoutRoutingHasNoRoute(t *testing.T) {
	without := words()
	without.Fields.RoutingFrom = ""
	if PlanRoute(sandbox(t), words()).Part != nil || PlanRoute(routed(t), without).Part != nil {
		t.Error("it has one")
	}
}

func TestARouteIsCorrectedInWhatIsItsSandboxsToSay(t *testing.T) {
	for name, row := range map[string]struct {
		route, plan func(*unstructured.Unstructured)
		want        string
		replaced    bool
	}{
		"nothing differs":           {},
		"the Sandbox is suspended":  {plan: set(true, "spec", "suspended")},
		"others have added a label": {route: set("yes", "metadata", "labels", "theirs")},
		"the header differs":        {plan: set("baggage", "spec", "routing", "key", "headerName"), want: `{"spec":{"selectorHeaderName":"baggage"}}`},
		"it leads to another group": {route: set("other", "spec", "sandboxGroupRef", "name"), want: `{"spec":{"sandboxGroupRef":{"name":"preview"}}}`},
		"somebody has added Istio":  {route: set(map[string]any{"hosts": []any{"a"}}, "spec", "istio"), want: `{"spec":{"istio":null}}`},
		"the project has gone":      {plan: unset("spec", "projectRef"), want: `{"metadata":{"labels":{"sandbar.dev/project":null}}}`},
		"what is refused is not led": {plan: func(obj *unstructured.Unstructured) {
			set("1h", "spec", "lifecycle", "sleepAfterUnused")(obj)
			set("x-other", "spec", "routing", "key", "headerName")(obj)
		}},
		"a provider that is another": {
			plan: func(obj *unstructured.Unstructured) {
				set("proxy", "spec", "routing", "provider")(obj)
				unset("spec", "routing", "gateway")(obj)
			}, replaced: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := routed(t)
			part := routeOfSandbox(t, obj, "")
			if row.route != nil {
				row.route(part)
			}
			if row.plan != nil {
				row.plan(obj)
			}
			plan := PlanRoute(obj, words())
			if plan.replaces(part) != row.replaced {
				t.Fatalf("another one takes its place: %t", !row.replaced)
			}
			if row.replaced {
				return
			}
			if got := short(t, Correction(part, plan)); got != row.want {
				t.Errorf("the patch is %s, want %s", got, row.want)
			}
		})
	}
}
