// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const goodGraph = `{
  "schema": {
    "apiVersion": "v1alpha1", "kind": "Thing", "group": "sandbar.dev",
    "spec": {"suspended": "boolean | default=false"},
    "status": {
      "controlServiceRef": {"name": "${control.metadata.name}", "namespace": "${control.metadata.namespace}"},
      "controlSecretRef": {"name": "${secret.metadata.name}", "namespace": "${secret.metadata.namespace}"},
      "parts": {"api": {"ref": {"name": "${api.metadata.name}", "namespace": "${api.metadata.namespace}"}}},
      "half": {"name": "${control.metadata.name}"},
      "replicas": "${runner.status.replicas}"
    }
  },
  "resources": []
}`

// goodSpec is a Template's spec that has no problem.
func goodSpec() *sandbarv1alpha1.TemplateSpec {
	service := func(path string, methods ...string) sandbarv1alpha1.Endpoint {
		return sandbarv1alpha1.Endpoint{ServiceRef: "status.controlServiceRef", Port: "control", UpstreamPath: path, Methods: methods}
	}
	return &sandbarv1alpha1.TemplateSpec{
		Graph: runtime.RawExtension{Raw: []byte(goodGraph)},
		DataPlane: sandbarv1alpha1.DataPlane{
			TokenSecretRef: "status.controlSecretRef",
			Endpoints: map[string]sandbarv1alpha1.Endpoint{
				"log":    service("/logs", "GET"),
				"sync":   service("/sync", "POST"),
				"status": {From: FromInstanceStatus},
			},
			Components: map[string]sandbarv1alpha1.Component{
				"api": {Endpoints: map[string]sandbarv1alpha1.Endpoint{
					"log": {ServiceRef: "status.parts.api.ref", Port: "control", Methods: []string{"GET"}},
				}},
			},
		},
	}
}

// editGraph changes a value of the good graph's schema.
func editGraph(spec *sandbarv1alpha1.TemplateSpec, edit func(schema map[string]any)) {
	var graph map[string]any
	if err := json.Unmarshal(spec.Graph.Raw, &graph); err != nil {
		panic(err)
	}
	edit(graph["schema"].(map[string]any))
	spec.Graph.Raw, _ = json.Marshal(graph)
}

// resources gives the good graph resources.
func resources(spec *sandbarv1alpha1.TemplateSpec, list string) {
	spec.Graph.Raw = []byte(strings.Replace(string(spec.Graph.Raw), `"resources": []`, `"resources": `+list, 1))
}

func endpoint(verb string, edit func(*sandbarv1alpha1.Endpoint)) func(*sandbarv1alpha1.TemplateSpec) {
	return func(spec *sandbarv1alpha1.TemplateSpec) {
		e := spec.DataPlane.Endpoints[verb]
		edit(&e)
		spec.DataPlane.Endpoints[verb] = e
	}
}

func schemaField(name string, value any) func(*sandbarv1alpha1.TemplateSpec) {
	return func(spec *sandbarv1alpha1.TemplateSpec) {
		editGraph(spec, func(schema map[string]any) { schema[name] = value })
	}
}

// unsound are the cases of TestCheckNamesWhatCannotHold.
var unsound = map[string]struct {
	edit func(*sandbarv1alpha1.TemplateSpec)
	want []string
}{
	"a sound Template has no problem": {edit: func(*sandbarv1alpha1.TemplateSpec) {}},
	"other spacing in the marker of suspended is the same marker": {
		edit: schemaField("spec", map[string]any{"suspended": "boolean|default=false"}),
	},
	"a graph that is no object": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) { s.Graph.Raw = []byte(`[]`) },
		want: []string{"spec.graph: is not the spec of a ResourceGraphDefinition: "},
	},
	"a graph without a schema": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) { s.Graph.Raw = []byte(`{"resources":[]}`) },
		want: []string{"spec.graph.schema: is missing; it names the kind and its fields"},
	},
	"proofs and no token": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) {
			s.DataPlane.ControlAuth, s.DataPlane.TokenSecretRef = "Proof", ""
		},
		want: []string{"spec.dataPlane.controlAuth: needs tokenSecretRef: a proof is one of having the token"},
	},
	"proofs that no pod takes": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) { s.DataPlane.ControlAuth = "Proof" },
		want: []string{"spec.dataPlane.controlAuth: needs a container with the variable SANDBAR_POD_UID from fieldRef metadata.uid: pods without it get the token itself"},
	},
	"proofs that a pod takes": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) {
			s.DataPlane.ControlAuth = "Proof"
			resources(s, `[{"id": "a", "template": {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"env": [{"name": "SANDBAR_POD_UID"}]}]}}}]`)
		},
	},
	"another way to show the token": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) { s.DataPlane.ControlAuth = "Basic" },
		want: []string{`spec.dataPlane.controlAuth: must be Token or Proof, not "Basic"`},
	},
	"pods behind a Service without the label": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) {
			resources(s, `[
				{"id": "web", "template": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"metadata": {"labels": {"app": "web", "tier": "x"}}}}}},
				{"id": "lone", "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": "web"}}}},
				{"id": "worker", "template": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"metadata": {"labels": {"app": "worker"}}}}}},
				{"id": "labelled", "template": {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"template": {"metadata": {"labels": {"app": "web", "sandbar.dev/instance-uid": "${x}"}}}}}},
				{"id": "unknown", "template": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"metadata": {"labels": "${y}"}}}}},
				{"id": "svc", "template": {"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "web"}}}},
				{"id": "external", "template": {"apiVersion": "v1", "kind": "Service", "spec": {}}},
				{"id": "ref", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap"}}]`)
		},
		want: []string{
			`spec.graph.resources[0].template.spec.template.metadata.labels: must have sandbar.dev/instance-uid: ${schema.metadata.labels["sandbar.dev/instance-uid"]}, since the Service "svc" leads to these pods: the data plane dials no others`,
			`spec.graph.resources[1].template.metadata.labels: must have sandbar.dev/instance-uid: ${schema.metadata.labels["sandbar.dev/instance-uid"]}, since the Service "svc" leads to these pods: the data plane dials no others`,
		},
	},
	"another group": {
		edit: schemaField("group", "example.com"),
		want: []string{`spec.graph.schema.group: must be sandbar.dev, not "example.com": the export offers no other group`},
	},
	"cluster scope": {
		edit: schemaField("scope", "Cluster"),
		want: []string{`spec.graph.schema.scope: must be Namespaced, not "Cluster": an instance is placed in a namespace of its own`},
	},
	"a kind of Sandbar's own": {
		edit: schemaField("kind", "Template"),
		want: []string{"spec.graph.schema.kind: Template is a kind of Sandbar's own; choose another"},
	},
	"a kind of Sandbar's own for operators": {
		edit: schemaField("kind", "Baseline"),
		want: []string{"spec.graph.schema.kind: Baseline is a kind of Sandbar's own; choose another"},
	},
	"no kind and no version": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) { schemaField("kind", "")(s); schemaField("apiVersion", "1")(s) },
		want: []string{
			`spec.graph.schema.apiVersion: must be a version such as v1alpha1, not "1"`,
			`spec.graph.schema.kind: must be a kind such as SandboxRunner, at most 63 letters and digits, not ""`,
		},
	},
	"suspended is missing": {
		edit: schemaField("spec", map[string]any{}),
		want: []string{`spec.graph.schema.spec.suspended: must be "boolean | default=false": every instance can be suspended in the same way`},
	},
	"a lifecycle of the graph's own": {
		edit: schemaField("spec", map[string]any{"suspended": "boolean | default=false", "lifecycle": map[string]any{"ttl": "string"}}),
		want: []string{"spec.graph.schema.spec.lifecycle: is Sandbar's, for every kind; give the field another name"},
	},
	"a revision of the graph's own": {
		edit: schemaField("spec", map[string]any{"suspended": "boolean | default=false", "sandbarRevision": "string"}),
		want: []string{"spec.graph.schema.spec.sandbarRevision: is Sandbar's, for every kind; give the field another name"},
	},
	"suspended has another default": {
		edit: schemaField("spec", map[string]any{"suspended": "boolean | default=true"}),
		want: []string{`spec.graph.schema.spec.suspended: must be "boolean | default=false": every instance can be suspended in the same way`},
	},
	"a status field that Sandbar writes itself": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) {
			editGraph(s, func(schema map[string]any) { schema["status"].(map[string]any)["phase"] = "${a.b}" })
		},
		want: []string{"spec.graph.schema.status.phase: is set by Sandbar; give the field another name"},
	},
	"a status path that the graph does not have": {
		edit: endpoint("log", func(e *sandbarv1alpha1.Endpoint) { e.ServiceRef = "status.missing" }),
		want: []string{"spec.dataPlane.endpoints.log.serviceRef: status.missing is not a status field of the graph (status has: controlSecretRef, controlServiceRef, half, parts, replicas)"},
	},
	"a nested status path that the graph does not have": {
		edit: endpoint("log", func(e *sandbarv1alpha1.Endpoint) { e.ServiceRef = "status.parts.web.ref" }),
		want: []string{"spec.dataPlane.endpoints.log.serviceRef: status.parts.web.ref is not a status field of the graph (status.parts has: api)"},
	},
	"a status path to a value": {
		edit: endpoint("log", func(e *sandbarv1alpha1.Endpoint) { e.ServiceRef = "status.replicas" }),
		want: []string{"spec.dataPlane.endpoints.log.serviceRef: status.replicas must be an object with name and namespace in the graph's status"},
	},
	"a reference without a namespace": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) { s.DataPlane.TokenSecretRef = "status.half" },
		want: []string{"spec.dataPlane.tokenSecretRef: status.half must be an object with name and namespace in the graph's status; it has no namespace"},
	},
	"a path outside the status": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) { s.DataPlane.TokenSecretRef = "spec.secret" },
		want: []string{`spec.dataPlane.tokenSecretRef: "spec.secret" must be a path in the graph's status, such as status.controlServiceRef`},
	},
	"a verb that is no DNS label": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) {
			s.DataPlane.Endpoints["Log_2"] = sandbarv1alpha1.Endpoint{From: FromInstanceStatus}
		},
		want: []string{"spec.dataPlane.endpoints.Log_2: the name of a verb must be a DNS label: at most 63 lower-case letters, digits and inner hyphens"},
	},
	"verbs that mean something else": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) {
			s.DataPlane.Endpoints["components"] = sandbarv1alpha1.Endpoint{From: FromInstanceStatus}
			s.DataPlane.Endpoints["scale"] = sandbarv1alpha1.Endpoint{From: FromInstanceStatus}
			s.DataPlane.Endpoints["proxy-url"] = sandbarv1alpha1.Endpoint{From: FromInstanceStatus}
		},
		want: []string{
			"spec.dataPlane.endpoints.components: is reserved: …/components/<component>/<verb> leads to a component's verbs",
			"spec.dataPlane.endpoints.proxy-url: is reserved: every kind with the verb proxy has it already",
			"spec.dataPlane.endpoints.scale: is reserved: Kubernetes gives the subresource scale a meaning of its own",
		},
	},
	"a status verb that leads to a pod": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) {
			s.DataPlane.Endpoints["status"] = sandbarv1alpha1.Endpoint{ServiceRef: "status.controlServiceRef", Port: "control", UpstreamPath: "/status", Methods: []string{"GET"}}
		},
		want: []string{"spec.dataPlane.endpoints.status: must have from: instanceStatus; the subresource status is the instance's own"},
	},
	"no target": {
		edit: endpoint("log", func(e *sandbarv1alpha1.Endpoint) { e.ServiceRef = "" }),
		want: []string{"spec.dataPlane.endpoints.log: must have exactly one of serviceRef, podRef, podsOf and from"},
	},
	"two targets": {
		edit: endpoint("log", func(e *sandbarv1alpha1.Endpoint) { e.From = FromInstanceStatus }),
		want: []string{"spec.dataPlane.endpoints.log: must have exactly one of serviceRef, podRef, podsOf and from"},
	},
	"no methods": {
		edit: endpoint("sync", func(e *sandbarv1alpha1.Endpoint) { e.Methods = nil }),
		want: []string{"spec.dataPlane.endpoints.sync.methods: must name at least one HTTP method"},
	},
	"a port without a name": {
		edit: endpoint("sync", func(e *sandbarv1alpha1.Endpoint) { e.Port = "" }),
		want: []string{"spec.dataPlane.endpoints.sync.port: must name a port of the Service"},
	},
	"an upgrade that GET cannot begin": {
		edit: endpoint("sync", func(e *sandbarv1alpha1.Endpoint) { e.Upgrade = true }),
		want: []string{"spec.dataPlane.endpoints.sync.upgrade: needs the method GET: an upgrade is a GET"},
	},
	"the duration of streams where there are none": {
		edit: endpoint("sync", func(e *sandbarv1alpha1.Endpoint) { e.StreamDurationSeconds = 60 }),
		want: []string{"spec.dataPlane.endpoints.sync.streamDurationSeconds: needs stream or upgrade: nothing else of an endpoint is a stream"},
	},
	"the duration of streams": {
		edit: endpoint("log", func(e *sandbarv1alpha1.Endpoint) { e.Stream, e.StreamDurationSeconds = true, 60 }),
	},
	"a pod's log that would be written": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) {
			s.DataPlane.Endpoints["log"] = sandbarv1alpha1.Endpoint{PodRef: "status.parts.api.ref", PodSubresource: "log", Methods: []string{"POST"}, Port: "x"}
			s.DataPlane.Components = nil
		},
		want: []string{
			"spec.dataPlane.endpoints.log.methods: a pod's log can only be read: GET",
			"spec.dataPlane.endpoints.log.port: means nothing beside podSubresource: log; remove it",
		},
	},
	"a status that would be written": {
		edit: endpoint("status", func(e *sandbarv1alpha1.Endpoint) { e.Methods = []string{"PUT"} }),
		want: []string{"spec.dataPlane.endpoints.status.methods: the status can only be read: GET"},
	},
	"one path as a Service and as a Secret": {
		edit: endpoint("log", func(e *sandbarv1alpha1.Endpoint) { e.ServiceRef = "status.controlSecretRef" }),
		want: []string{"spec.dataPlane.endpoints.log.serviceRef: status.controlSecretRef is the Secret of tokenSecretRef already; it cannot be a Service too"},
	},
	"a verb that would give the right to another": {
		edit: endpoint("proxy", func(e *sandbarv1alpha1.Endpoint) {
			*e = sandbarv1alpha1.Endpoint{ServiceRef: "status.controlServiceRef", Port: "control", Methods: []string{"POST"}}
		}),
		want: []string{"spec.dataPlane.endpoints.proxy.upstreamPath: / contains /sync of verb sync at the same port with the same method: who may call proxy could call sync; give them paths of their own"},
	},
	"a component without verbs and without a proper name": {
		edit: func(s *sandbarv1alpha1.TemplateSpec) {
			s.DataPlane.Components["A"] = sandbarv1alpha1.Component{}
		},
		want: []string{
			"spec.dataPlane.components.A: the name of a component must be a DNS label: at most 63 lower-case letters, digits and inner hyphens",
			"spec.dataPlane.components.A.endpoints: must have at least one verb",
		},
	},
}

func TestCheckNamesWhatCannotHold(t *testing.T) {
	for name, tc := range unsound {
		t.Run(name, func(t *testing.T) {
			spec := goodSpec()
			tc.edit(spec)
			var got []string
			for _, p := range Check(spec) {
				got = append(got, p.String())
			}
			if len(tc.want) == 1 && len(got) == 1 && strings.HasSuffix(tc.want[0], ": ") {
				// The rest of the message is the JSON decoder's.
				got[0] = got[0][:min(len(tc.want[0]), len(got[0]))]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzCheck feeds it what an operator might apply. Check never fails, and a Template that it
// finds sound has references that Resolve can follow once the status is filled in.
func FuzzCheck(f *testing.F) {
	good, err := json.Marshal(goodSpec().DataPlane)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(goodGraph), good)
	f.Add([]byte(`{"schema":{}}`), []byte(`{}`))
	f.Add([]byte(`{"schema":{"status":{"a":{"name":"x","namespace":"y"}}}}`), []byte(`{"endpoints":{"log":{"serviceRef":"status.a.name"}}}`))
	f.Fuzz(func(t *testing.T, graph, dataPlane []byte) {
		spec := &sandbarv1alpha1.TemplateSpec{Graph: runtime.RawExtension{Raw: graph}}
		if err := json.Unmarshal(dataPlane, &spec.DataPlane); err != nil {
			return
		}
		if len(Check(spec)) > 0 {
			return
		}
		var parsed struct {
			Schema struct {
				Status map[string]any `json:"status"`
			} `json:"schema"`
		}
		if err := json.Unmarshal(graph, &parsed); err != nil {
			t.Fatalf("a graph without problems does not parse: %v", err)
		}
		for _, path := range RefPaths(&spec.DataPlane) {
			_, err := Resolve(map[string]any{"status": parsed.Schema.Status}, path)
			if err != nil && !errors.Is(err, ErrNotReady) {
				t.Errorf("%s cannot be followed: %v", path, err)
			}
		}
	})
}

func TestAKindWithAPreviewGivesOutLinksToIt(t *testing.T) {
	service := sandbarv1alpha1.Endpoint{ServiceRef: "status.ref", Port: "http", Methods: []string{"GET"}}
	status := sandbarv1alpha1.Endpoint{From: FromInstanceStatus}
	for name, tc := range map[string]struct {
		dp                  sandbarv1alpha1.DataPlane
		verbs, subresources []string
	}{
		"no proxy": {
			dp:    sandbarv1alpha1.DataPlane{Endpoints: map[string]sandbarv1alpha1.Endpoint{"log": service}},
			verbs: []string{"log", "renew"}, subresources: []string{"log", "renew"},
		},
		"a proxy that leads to no Service": {
			dp:    sandbarv1alpha1.DataPlane{Endpoints: map[string]sandbarv1alpha1.Endpoint{"proxy": status}},
			verbs: []string{"proxy", "renew"}, subresources: []string{"proxy", "renew"},
		},
		"a proxy": {
			dp:    sandbarv1alpha1.DataPlane{Endpoints: map[string]sandbarv1alpha1.Endpoint{"proxy": service, "status": status}},
			verbs: []string{"proxy", "proxy-url", "renew", "status"}, subresources: []string{"proxy", "proxy-url", "renew", "status"},
		},
		"a proxy of a component": {
			dp: sandbarv1alpha1.DataPlane{
				Endpoints:  map[string]sandbarv1alpha1.Endpoint{"log": service},
				Components: map[string]sandbarv1alpha1.Component{"api": {Endpoints: map[string]sandbarv1alpha1.Endpoint{"log": service, "proxy": service}}},
			},
			verbs:        []string{"components/api/log", "components/api/proxy", "components/api/proxy-url", "log", "renew"},
			subresources: []string{"log", "proxy", "proxy-url", "renew"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.verbs, Verbs(&tc.dp)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.subresources, Subresources(&tc.dp)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
