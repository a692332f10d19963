// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const workloads = `[
  {"id": "api", "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}, "spec": {
    "template": {"spec": {"containers": [
      {"name": "main", "image": "x", "ports": [{"name": "http", "containerPort": 8000}, {"name": "taken", "containerPort": 7070}],
       "volumeMounts": [{"name": "cache", "mountPath": "/srv/cache"}]},
      {"name": "side", "image": "y", "env": [{"name": "SANDBAR_X", "value": "1"}]}
    ]}}}}},
  {"id": "closed", "template": {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "closed"}, "spec": {
    "template": {"spec": {"volumes": "${schema.spec.volumes}", "containers": [{"name": "main", "image": "x", "env": "${schema.spec.env}"}]}}}}},
  {"id": "service", "template": {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "service"}, "spec": {}}}
]`

// developed is a sound Template with a sound development contract.
func developed() *sandbarv1alpha1.TemplateSpec {
	spec := goodSpec()
	var graph map[string]any
	if err := json.Unmarshal(spec.Graph.Raw, &graph); err != nil {
		panic(err)
	}
	graph["resources"] = json.RawMessage(workloads)
	spec.Graph.Raw, _ = json.Marshal(graph)
	spec.Development = &sandbarv1alpha1.Development{Components: map[string]sandbarv1alpha1.DevelopmentComponent{
		"api": {WorkspacePath: "api", Image: "python", WorkingDir: "/workspace", StartCommand: "python3 server.py", Port: "http"},
	}}
	return spec
}

func TestCheckNamesWhatCannotHoldOfDevelopment(t *testing.T) {
	edit := func(change func(*sandbarv1alpha1.DevelopmentComponent)) func(*sandbarv1alpha1.TemplateSpec) {
		return func(s *sandbarv1alpha1.TemplateSpec) {
			c := s.Development.Components["api"]
			change(&c)
			s.Development.Components["api"] = c
		}
	}
	another := func(name string, c sandbarv1alpha1.DevelopmentComponent) func(*sandbarv1alpha1.TemplateSpec) {
		return func(s *sandbarv1alpha1.TemplateSpec) { s.Development.Components[name] = c }
	}
	restart := false
	for name, tc := range map[string]struct {
		edit func(*sandbarv1alpha1.TemplateSpec)
		want []string
	}{
		"a sound contract has no problem": {edit: func(*sandbarv1alpha1.TemplateSpec) {}},
		"the field mode as it would be added": {edit: func(s *sandbarv1alpha1.TemplateSpec) {
			editGraph(s, func(schema map[string]any) { schema["spec"].(map[string]any)["mode"] = ModeField })
		}},
		"the field mode in the author's own sense": {
			edit: func(s *sandbarv1alpha1.TemplateSpec) {
				editGraph(s, func(schema map[string]any) { schema["spec"].(map[string]any)["mode"] = "integer" })
			},
			want: []string{`spec.graph.schema.spec.mode: must be left out, or be ` + ModeField + `: spec.development adds it, and it means the same in every kind`},
		},
		"a status field of the author's where the runners' is": {
			edit: func(s *sandbarv1alpha1.TemplateSpec) {
				editGraph(s, func(schema map[string]any) { schema["status"].(map[string]any)["development"] = "${a.b}" })
			},
			want: []string{"spec.graph.schema.status.development: is set by Sandbar; give the field another name"},
		},
		"no components": {
			edit: func(s *sandbarv1alpha1.TemplateSpec) { s.Development.Components = nil },
			want: []string{"spec.development.components: must have at least one component"},
		},
		"a workload that the graph does not have": {
			edit: another("web", sandbarv1alpha1.DevelopmentComponent{WorkspacePath: "web"}),
			want: []string{`spec.development.components.web.workload: the graph has no Deployment or StatefulSet (apps/v1) with the id "web"; it has: api, closed`},
		},
		"a workload that is none": {
			edit: edit(func(c *sandbarv1alpha1.DevelopmentComponent) { c.Workload = "service" }),
			want: []string{`spec.development.components.api.workload: the graph has no Deployment or StatefulSet (apps/v1) with the id "service"; it has: api, closed`},
		},
		"a container that the pods do not have": {
			edit: edit(func(c *sandbarv1alpha1.DevelopmentComponent) { c.Container = "x" }),
			want: []string{`spec.development.components.api.container: the pods of "api" have no container "x" that the graph spells out; they have: main, side`},
		},
		"lists that only an expression gives": {
			edit: edit(func(c *sandbarv1alpha1.DevelopmentComponent) { c.Workload, c.Port = "closed", "" }),
			want: []string{
				`spec.development.components.api.workload: env of the pods of "closed" must be spelled out as a list: development adds to it`,
				`spec.development.components.api.workload: volumes of the pods of "closed" must be spelled out as a list: development adds to it`,
			},
		},
		"one workload twice": {
			edit: another("other", sandbarv1alpha1.DevelopmentComponent{Workload: "api", WorkspacePath: "other", WorkingDir: "/workspace"}),
			want: []string{"spec.development.components.other.workload: is that of component api already: its pods can run one workspace"},
		},
		"a port that the container does not have": {
			edit: edit(func(c *sandbarv1alpha1.DevelopmentComponent) { c.Port = "grpc" }),
			want: []string{`spec.development.components.api.port: the container has no port named "grpc"; it has: http, taken`},
		},
		"the runner's port, by number and by name": {
			edit: func(s *sandbarv1alpha1.TemplateSpec) {
				edit(func(c *sandbarv1alpha1.DevelopmentComponent) { c.Port = "taken" })(s)
				another("b", sandbarv1alpha1.DevelopmentComponent{Workload: "closed", WorkspacePath: "b", WorkingDir: "/workspace", Port: "control"})(s)
			},
			want: []string{
				"spec.development.components.api.port: 7070 is the runner's port; let the container serve at another",
				"spec.development.components.b.port: control is the name of the runner's port; give the container's port another name",
				`spec.development.components.b.workload: env of the pods of "closed" must be spelled out as a list: development adds to it`,
				`spec.development.components.b.workload: volumes of the pods of "closed" must be spelled out as a list: development adds to it`,
			},
		},
		"a working directory over a mount": {
			edit: edit(func(c *sandbarv1alpha1.DevelopmentComponent) { c.WorkingDir = "/srv" }),
			want: []string{`spec.development.components.api.workingDir: "/srv" overlaps the mount at "/srv/cache" of the container`},
		},
		"a variable of the runner": {
			edit: edit(func(c *sandbarv1alpha1.DevelopmentComponent) { c.Container, c.Port = "side", "" }),
			want: []string{"spec.development.components.api.workload: the container sets SANDBAR_X; variables that begin with SANDBAR_ are the runner's"},
		},
		"a workspace that climbs": {
			edit: edit(func(c *sandbarv1alpha1.DevelopmentComponent) { c.WorkspacePath = "a/../../b" }),
			want: []string{`spec.development.components.api.workspacePath: must be a clean relative path inside the project, such as web, apps/web or ".", not "a/../../b"`},
		},
		"an absolute workspace": {
			edit: edit(func(c *sandbarv1alpha1.DevelopmentComponent) { c.WorkspacePath = "/api" }),
			want: []string{`spec.development.components.api.workspacePath: must be a clean relative path inside the project, such as web, apps/web or ".", not "/api"`},
		},
		"a workspace inside another": {
			edit: another("part", sandbarv1alpha1.DevelopmentComponent{Workload: "closed", WorkspacePath: "api/part", WorkingDir: "/workspace"}),
			want: []string{
				`spec.development.components.part.workload: env of the pods of "closed" must be spelled out as a list: development adds to it`,
				`spec.development.components.part.workload: volumes of the pods of "closed" must be spelled out as a list: development adds to it`,
				`spec.development.components.part.workspacePath: "api/part" lies in "api" of component api: a file must belong to one component`,
			},
		},
		"a name that makes no names": {
			edit: func(s *sandbarv1alpha1.TemplateSpec) {
				c := s.Development.Components["api"]
				c.Workload = "api"
				s.Development.Components = map[string]sandbarv1alpha1.DevelopmentComponent{"my-api": c}
			},
			want: []string{"spec.development.components.my-api: the name of a component must be at most 32 lower-case letters and digits, a letter first"},
		},
		"rules that do nothing or match nothing": {
			edit: edit(func(c *sandbarv1alpha1.DevelopmentComponent) {
				c.Reload = &sandbarv1alpha1.Reload{Rules: []sandbarv1alpha1.ReloadRule{{Paths: []string{"*.py"}, Restart: &restart}, {Paths: []string{"!x"}}}}
			}),
			want: []string{
				"spec.development.components.api.reload.rules[0]: does nothing: it has no command and does not restart",
				"spec.development.components.api.reload.rules[1].paths: must be patterns such as package.json, *.py or src/**, one each, without ! and # at the front",
			},
		},
		"a declared verb that is the runner's": {
			edit: func(s *sandbarv1alpha1.TemplateSpec) {
				e := s.DataPlane.Components["api"].Endpoints
				e["sync"] = sandbarv1alpha1.Endpoint{From: FromInstanceStatus}
				e["proxy"] = sandbarv1alpha1.Endpoint{ServiceRef: "status.parts.api.ref", Port: "http", Methods: []string{"GET"}}
			},
			want: []string{"spec.dataPlane.components.api.endpoints.sync: is the runner's in a component that spec.development lists; give the verb another name"},
		},
		"a Service that would get a token which its author did not ask for": {
			edit: func(s *sandbarv1alpha1.TemplateSpec) { s.DataPlane.TokenSecretRef = "" },
			want: []string{"spec.dataPlane.tokenSecretRef: must be set: with spec.development the control token is sent to every serviceRef but that of proxy, also to spec.dataPlane.components.api.endpoints.log"},
		},
		"an id of those that are added": {
			edit: func(s *sandbarv1alpha1.TemplateSpec) {
				s.Graph.Raw = []byte(strings.Replace(string(s.Graph.Raw), `"id":"service"`, `"id":"sandbarService"`, 1))
			},
			want: []string{"spec.graph.resources[2].id: must not begin with sandbar: such ids are of what development adds to the graph"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := developed()
			tc.edit(spec)
			var got []string
			for _, p := range Check(spec) {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompletionAddsTheRunnersVerbsAndKeepsTheDeclaredOnes(t *testing.T) {
	spec := developed()
	dp := Complete(spec)
	want := []string{
		"components/api/changes", "components/api/env", "components/api/exec", "components/api/files", "components/api/log", "components/api/process", "components/api/proxy", "components/api/proxy-url", "components/api/restart",
		"components/api/sync", "log", "renew", "status", "sync",
	}
	if diff := cmp.Diff(want, Verbs(dp)); diff != "" {
		t.Errorf("verbs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(spec.DataPlane.Components["api"].Endpoints["log"], dp.Components["api"].Endpoints["log"]); diff != "" {
		t.Errorf("the declared log (-want +got):\n%s", diff)
	}
	if _, changed := spec.DataPlane.Components["api"].Endpoints["sync"]; changed || dp.TokenSecretRef != spec.DataPlane.TokenSecretRef {
		t.Error("the Template itself was changed, or its token replaced")
	}
	for _, path := range RefPaths(dp) {
		if want := strings.HasPrefix(path, "status.development."); OnlyInDevelopment(path) != want {
			t.Errorf("%s is only in development: %v", path, !want)
		}
	}
	bare := &sandbarv1alpha1.TemplateSpec{Development: spec.Development}
	if got := Complete(bare); got.TokenSecretRef != "status.development.controlSecretRef" || len(got.Components) != 1 {
		t.Errorf("without a contract of its own: %+v", got)
	}
	bare.Development = nil
	if diff := cmp.Diff(&bare.DataPlane, Complete(bare)); diff != "" {
		t.Errorf("without development (-want +got):\n%s", diff)
	}
}

// The completed contract must hold as a declared one has to: no verb may give the right to
// another.
func TestACompletedContractIsSound(t *testing.T) {
	if problems := checkPairs(locate(Complete(developed()))); len(problems) > 0 {
		t.Error(problems)
	}
}
