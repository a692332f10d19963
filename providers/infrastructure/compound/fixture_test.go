// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

func words() *scope.CompoundWords {
	return &scope.CompoundWords{
		Fields: sandbarv1alpha1.CompoundFields{From: "workloads", Template: "sandbox-group", RoutingFrom: "routing"}, To: "components",
		Part:  export.Kind{GVK: schema.GroupVersionKind{Group: "sandbar.dev", Version: "v1alpha1", Kind: "SandboxGroup"}, Resource: "sandboxgroups"},
		Route: export.Kind{GVK: schema.GroupVersionKind{Group: "sandbar.dev", Version: "v1alpha1", Kind: "SandboxRoute"}, Resource: "sandboxroutes"},
	}
}

// objectOf reads an object as an API server shows it, with whole numbers.
func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// sandbox is a Sandbox with two workloads.
func sandbox(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return objectOf(t, `
apiVersion: sandbar.dev/v1alpha1
kind: Sandbox
metadata:
  name: preview
  namespace: storefront
  uid: 11111111-2222
  generation: 3
  annotations: {sandbar.dev/created-by: alice, example.com/note: mine}
  labels: {team: web}
spec:
  projectRef: {id: shop}
  owner: {type: user, id: alice}
  displayName: Preview
  visibility: private
  tags: {ticket: ENG-421}
  prewarm: Prefer
  resize: Require
  suspended: false
  lifecycle: {shutdownTime: "2030-01-01T00:00:00Z", shutdownPolicy: Retain}
  baselineRef: {name: shop}
  workloads:
    - name: frontend
      type: inherit
      inherit:
        sourceRef: {apiVersion: apps/v1, kind: Deployment, name: storefront}
        overrides: {replicas: 1, containers: [{name: app, image: "ghcr.io/acme/storefront:pr-421", env: [{name: A, value: b}]}]}
        podTemplatePatch: [{op: remove, path: /spec/containers/1}]
        service: {type: ClusterIP, ports: [{port: 8080, protocol: TCP}]}
    - name: api
      type: inherit
      inherit:
        sourceRef: {apiVersion: apps/v1, kind: StatefulSet, name: api, namespace: backend}
`)
}

// groupOf is the SandboxGroup of a Sandbox, looked at, with a status.
func groupOf(t *testing.T, obj *unstructured.Unstructured, status string) *unstructured.Unstructured {
	t.Helper()
	group := PlanCopies(obj, words(), false).Part
	group.SetUID("33333333-4444")
	group.SetResourceVersion("7")
	group.SetGeneration(2)
	group.SetFinalizers([]string{"sandbar.dev/placement"})
	group.Object["status"] = objectOf(t, "{observedGeneration: 2, "+status+"}").Object
	return group
}

// routed is a Sandbox with routing, as an API server has filled it in.
func routed(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	obj := sandbox(t)
	obj.Object["spec"].(map[string]any)["routing"] = objectOf(t, `
provider: gateway
key: {headerName: X-Sandbox-Id}
gateway: {parentRefs: [{name: edge, namespace: infra}], hostnames: [preview.example.com]}
interceptions:
  - name: frontend
    targetService: {name: storefront}
    matches: [{path: {type: PathPrefix, value: /}}]
    routeTo: {workload: frontend, port: 8080}
  - name: api
    targetService: {name: storefront-api, namespace: null}
    matches: [{path: {type: PathPrefix, value: /api}, method: null}]
    routeTo: {workload: api, port: http}
`).Object
	return obj
}

// routeOfSandbox is the SandboxRoute of a Sandbox, looked at, with a status.
func routeOfSandbox(t *testing.T, obj *unstructured.Unstructured, status string) *unstructured.Unstructured {
	t.Helper()
	route := PlanRoute(obj, words()).Part
	route.SetUID("55555555-6666")
	route.SetResourceVersion("8")
	route.SetGeneration(1)
	route.SetFinalizers([]string{"sandbar.dev/route"})
	if !strings.HasPrefix(status, "observedGeneration") {
		status = "observedGeneration: 1, " + status
	}
	route.Object["status"] = objectOf(t, "{"+strings.TrimSuffix(status, ", ")+"}").Object
	return route
}
