// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/templates"
)

// TestTheCompletedGraphIsTheGolden shows in a review what kro gets of a Template that can be
// developed.
func TestTheCompletedGraphIsTheGolden(t *testing.T) {
	tmpl, err := templates.Get("web-app")
	if err != nil {
		t.Fatal(err)
	}
	if problems := contract.Check(&tmpl.Spec); len(problems) > 0 {
		t.Fatal(problems)
	}
	p, err := newPlan(tmpl)
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(p.graph)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, filepath.Join("testdata", "web-app.developed.golden.yaml"), got)
}

// What is not listed must not change by as much as a space: kro would write it, and a database
// would be restarted.
func TestNothingButTheListedWorkloadsChanges(t *testing.T) {
	tmpl, err := templates.Get("web-app")
	if err != nil {
		t.Fatal(err)
	}
	before := resourcesOf(t, tmpl.Spec.Graph.Raw)
	p, err := newPlan(tmpl)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(p.graph)
	if err != nil {
		t.Fatal(err)
	}
	after := resourcesOf(t, raw)
	var changed, added []string
	for id, resource := range after {
		if old, ok := before[id]; !ok {
			added = append(added, id)
		} else if !cmp.Equal(old, resource) {
			changed = append(changed, id)
		}
	}
	slices.Sort(changed)
	slices.Sort(added)
	if diff := cmp.Diff([]string{"api", "web"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"sandbarControlapi", "sandbarControlweb", "sandbarWorkspaceapi", "sandbarWorkspaceweb"}, added); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
}

func resourcesOf(t *testing.T, graph []byte) map[string]any {
	t.Helper()
	var parsed struct {
		Resources []map[string]any `json:"resources"`
	}
	if err := json.Unmarshal(graph, &parsed); err != nil {
		t.Fatal(err)
	}
	resources := map[string]any{}
	for _, r := range parsed.Resources {
		resources[r["id"].(string)] = r
	}
	return resources
}

const smallGraph = `{
  "schema": {"apiVersion": "v1alpha1", "kind": "Small", "group": "sandbar.dev", "spec": {"suspended": "boolean | default=false"}},
  "resources": [{"id": "app", "template": {"apiVersion": "apps/v1", "kind": "KIND", "metadata": {"name": "app"}, "spec": {
    "selector": {"matchLabels": {"app": "app"}}, SPEC
    "template": {"spec": {"containers": [{"name": "app", "image": "x", "ports": [{"name": "http", "containerPort": 80}]}]}}}}}]
}`

func small(kind, spec string) *sandbarv1alpha1.Template {
	tmpl := &sandbarv1alpha1.Template{}
	tmpl.Spec.Graph = runtime.RawExtension{Raw: []byte(strings.NewReplacer("KIND", kind, "SPEC", spec).Replace(smallGraph))}
	tmpl.Spec.Development = &sandbarv1alpha1.Development{Components: map[string]sandbarv1alpha1.DevelopmentComponent{
		"app": {WorkspacePath: ".", Image: "node", StartCommand: "node .", Port: "http"},
	}}
	return tmpl
}

// A workspace is one volume with one runner, however many pods there are in production.
func TestADevelopedWorkloadHasOnePodAtATime(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, spec         string
		replicas, strategy any
	}{
		"three replicas":           {"Deployment", `"replicas": 3,`, int64(1), onePodAtATime()},
		"none":                     {"Deployment", `"replicas": 0,`, int64(0), onePodAtATime()},
		"an expression":            {"Deployment", `"replicas": "${schema.spec.n}",`, int64(1), onePodAtATime()},
		"an expression that is 0":  {"Deployment", `"replicas": "${schema.spec.n - 2}",`, int64(0), onePodAtATime()},
		"a strategy of its own":    {"Deployment", `"strategy": {"type": "Recreate"},`, nil, "Recreate"},
		"a StatefulSet's own ways": {"StatefulSet", `"replicas": 2,`, int64(1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := newPlan(small(tc.kind, tc.spec))
			if err != nil {
				t.Fatal(err)
			}
			spec := p.graph["resources"].([]any)[0].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			if diff := cmp.Diff(tc.replicas, evaluated(t, spec["replicas"])); diff != "" {
				t.Errorf("replicas (-want +got):\n%s", diff)
			}
			strategy := evaluated(t, spec["strategy"])
			if s, ok := strategy.(map[string]any); ok && s["type"] == "Recreate" {
				strategy = "Recreate"
			}
			if diff := cmp.Diff(tc.strategy, strategy); diff != "" {
				t.Errorf("strategy (-want +got):\n%s", diff)
			}
		})
	}
}

func onePodAtATime() any {
	return map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(0), "maxUnavailable": int64(1)}}
}

func evaluated(t *testing.T, field any) any {
	t.Helper()
	if text, ok := field.(string); ok {
		return evaluate(t, text)
	}
	return field
}

// A graph without a reference to the platform gets one, and one without a token its own.
func TestASmallGraphIsCompleted(t *testing.T) {
	p, err := newPlan(small("Deployment", ""))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(p.graph)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := resourcesOf(t, raw)["sandbarPlatform"]; !ok {
		t.Error("the graph has no reference to the platform's ConfigMap")
	}
	status := p.graph["schema"].(map[string]any)["status"].(map[string]any)
	for _, path := range contract.RefPaths(p.dataPlane) {
		if _, err := contract.Resolve(map[string]any{"status": status}, path); err != nil {
			t.Errorf("the completed graph has no %s: %v", path, err)
		}
	}
	if p.spec.Properties["mode"].Default == nil || string(p.spec.Properties["mode"].Default.Raw) != `"production"` {
		t.Errorf("spec.mode is %+v", p.spec.Properties["mode"])
	}
}

// A graph that goes from no development to development admits all objects that there are.
func TestAddingDevelopmentIsACompatibleChange(t *testing.T) {
	bare := small("Deployment", "")
	bare.Spec.Development = nil
	before, err := newPlan(bare)
	if err != nil {
		t.Fatal(err)
	}
	after, err := newPlan(small("Deployment", ""))
	if err != nil {
		t.Fatal(err)
	}
	if changes := incompatibilities(before.spec, after.spec); len(changes) > 0 {
		t.Error(changes)
	}
}

// FuzzDevelop feeds it what an operator might apply. A Template without problems is completed, or
// refused with an error; what it becomes can be given to kro and read back.
func FuzzDevelop(f *testing.F) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		f.Add(small(kind, `"replicas": "${schema.spec.n}", "strategy": {"type": "Recreate"},`).Spec.Graph.Raw, []byte(`{"workspacePath":".","image":"node","startCommand":"x","port":"http"}`))
	}
	f.Add([]byte(strings.Replace(smallGraph, `"image": "x"`, `"env": [{"name": "A", "value": "${"}], "securityContext": "${a.b}"`, 1)), []byte(`{"workspacePath":"a","reload":{"rules":[{"paths":["*"]}]}}`))
	f.Fuzz(func(t *testing.T, graph, component []byte) {
		tmpl := &sandbarv1alpha1.Template{}
		tmpl.Spec.Graph.Raw = graph
		var c sandbarv1alpha1.DevelopmentComponent
		if json.Unmarshal(component, &c) != nil {
			return
		}
		tmpl.Spec.Development = &sandbarv1alpha1.Development{Components: map[string]sandbarv1alpha1.DevelopmentComponent{"app": c}}
		if len(contract.Check(&tmpl.Spec)) > 0 {
			return
		}
		p, err := newPlan(tmpl)
		if err != nil {
			return
		}
		desired, err := desiredGraph(placement.Names{}, "fuzz", p.graph)
		if err != nil {
			t.Fatal(err)
		}
		desired.DeepCopy() // panics on what is not JSON
	})
}
