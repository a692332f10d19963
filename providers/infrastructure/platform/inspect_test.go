// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// A cluster that lacks something cannot be had by asking a real one, so this one is a server
// that answers from a table.
func fakeCluster(t *testing.T, answers map[string]any) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer, ok := answers[req.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func goodAnswers() map[string]any {
	scope := map[string]any{"type": "string"}
	object := func(name string, inner any) map[string]any {
		return map[string]any{"type": "object", "properties": map[string]any{name: inner}}
	}
	crd := func(name string, schema any, labels map[string]any) map[string]any {
		return map[string]any{
			"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
			"metadata": map[string]any{"name": name, "labels": labels},
			"spec": map[string]any{"versions": []any{map[string]any{
				"name": "v1alpha1", "served": true, "schema": map[string]any{"openAPIV3Schema": schema},
			}}},
		}
	}
	group := func(kinds ...string) map[string]any {
		var resources []any
		for _, kind := range kinds {
			resources = append(resources, map[string]any{"kind": kind, "name": strings.ToLower(kind) + "s"})
		}
		return map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "resources": resources}
	}
	return map[string]any{
		"/version": map[string]any{"gitVersion": "v1.36.3"},
		"/api":     map[string]any{"kind": "APIVersions", "versions": []any{"v1"}},
		"/apis": map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{map[string]any{
			"name": "apiextensions.k8s.io", "versions": []any{map[string]any{"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"}},
		}}},
		"/apis/apiextensions.k8s.io/v1": map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apiextensions.k8s.io/v1", "resources": []any{
			map[string]any{"name": "customresourcedefinitions", "kind": "CustomResourceDefinition", "verbs": []any{"get", "list"}},
		}},
		crds + "/resourcegraphdefinitions.kro.run": crd("resourcegraphdefinitions.kro.run", object("spec", object("schema", object("scope", scope))), nil),
		crds + "/graphrevisions.internal.kro.run":  crd("graphrevisions.internal.kro.run", map[string]any{"type": "object"}, nil),
		crds: map[string]any{"kind": "CustomResourceDefinitionList", "apiVersion": "apiextensions.k8s.io/v1", "items": []any{
			crd("a.sandbar.dev", map[string]any{"type": "object"}, map[string]any{"kro.run/kro-version": "v0.9.3"}),
			crd("b.sandbar.dev", map[string]any{"type": "object"}, map[string]any{"kro.run/kro-version": "v0.10.1"}),
		}},
		"/apis/gateway.networking.k8s.io/v1":      group("HTTPRoute"),
		"/apis/gateway.networking.k8s.io/v1beta1": group("ReferenceGrant"),
	}
}

func TestInspectSaysWhatAClusterLacks(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(map[string]any)
		want error
		kro  string
	}{
		"a fit cluster; the newest of kro's labels is its version": {func(map[string]any) {}, nil, "v0.10.1"},
		"a Kubernetes built from source has no version to compare": {
			func(a map[string]any) { a["/version"] = map[string]any{"gitVersion": "v0.0.0-master+$Format:%H$"} }, nil, "v0.10.1",
		},
		"an old Kubernetes": {func(a map[string]any) { a["/version"] = map[string]any{"gitVersion": "v1.29.9"} }, ErrKubernetesTooOld, ""},
		"no kro":            {func(a map[string]any) { delete(a, crds+"/resourcegraphdefinitions.kro.run") }, ErrKroMissing, ""},
		"a kro whose graphs have no scope": {func(a map[string]any) {
			a[crds+"/resourcegraphdefinitions.kro.run"] = a[crds+"/graphrevisions.internal.kro.run"]
		}, ErrKroTooOld, ""},
		"a kro without graph revisions": {func(a map[string]any) { delete(a, crds+"/graphrevisions.internal.kro.run") }, ErrKroTooOld, ""},
		"a kro that has made nothing yet tells no version": {func(a map[string]any) {
			a[crds] = map[string]any{"kind": "CustomResourceDefinitionList", "apiVersion": "apiextensions.k8s.io/v1"}
		}, nil, ""},
		"a kro that its objects say is old": {func(a map[string]any) {
			items := a[crds].(map[string]any)["items"].([]any)
			for _, item := range items {
				item.(map[string]any)["metadata"].(map[string]any)["labels"] = map[string]any{"kro.run/kro-version": "v0.8.5"}
			}
		}, ErrKroTooOld, "v0.8.5"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := goodAnswers()
			tc.edit(answers)
			inspector, err := NewInspector(fakeCluster(t, answers))
			if err != nil {
				t.Fatal(err)
			}
			found, err := inspector.Inspect(t.Context())
			if !errors.Is(err, tc.want) || (tc.want == nil && err != nil) {
				t.Errorf("err = %v, want %v", err, tc.want)
			}
			if found.KroVersion != tc.kro {
				t.Errorf("kro %q, want %q", found.KroVersion, tc.kro)
			}
		})
	}
}

func TestAClusterThatDoesNotAnswerIsUnreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	inspector, err := NewInspector(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	if _, err := inspector.Inspect(t.Context()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("err = %v, want ErrUnreachable", err)
	}
}

func TestTheGatewayAPIIsThereOnlyWhole(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(map[string]any)
		want bool
	}{
		"both kinds": {func(map[string]any) {}, true},
		"no grants":  {func(a map[string]any) { delete(a, "/apis/gateway.networking.k8s.io/v1beta1") }, false},
		"another kind only": {func(a map[string]any) {
			a["/apis/gateway.networking.k8s.io/v1"] = map[string]any{"kind": "APIResourceList", "resources": []any{map[string]any{"kind": "GRPCRoute"}}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			answers := goodAnswers()
			tc.edit(answers)
			inspector, err := NewInspector(fakeCluster(t, answers))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := inspector.HasGateway(); err != nil || got != tc.want {
				t.Errorf("got %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}
