// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"net/http"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestCloneMakesASandboxOfABaselinesWorkloads(t *testing.T) {
	w := newWorld(t)
	w.Stocked(t).Put("apibindings", map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
		"metadata": map[string]any{"name": "sandbar.dev", "annotations": map[string]any{"extra.apis.kcp.io/dataplane-url": w.URL}},
	})
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		const shop = `{"name": "shop", "aliases": ["shop"], "ready": true, "workloads": [
			{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "frontend", "replicas": 2, "containers": [{"name": "app"}, {"name": "side\u001b[2Jcar"}]},
			{"apiVersion": "apps/v1", "kind": "StatefulSet", "namespace": "shop", "name": "api", "replicas": 1, "containers": [{"name": "app"}]}],
			"servicesFound": 1, "services": [{"namespace": "shop", "name": "frontend"}],
			"routing": {"gateways": [{"namespace": "edge", "name": "public"}], "hostnames": ["*.example.com"]}}`
		items := shop
		if name := r.URL.Query().Get("name"); name != "" && name != "shop" {
			items = ""
		}
		_, _ = rw.Write([]byte(`{"items": [` + items + `]}`))
	})
	w.Transcript(t, "clone.golden", []clitest.Turn{
		{Name: "one workload", Args: "clone shop/frontend --name plain"},
		{Name: "as it is now", Args: "get sandbox plain -o yaml"},
		{Name: "two, with all flags, printed", Args: "clone web=shop/frontend shop/api --name both --image web/app=ghcr.io/acme/shop:2 --env web/app:LEVEL=debug --replicas api=1 --label env=test -n other -o yaml"},
		{Name: "which made nothing", Args: "get sandbox both -n other"},
		{Name: "with routing, printed", Args: "clone web=shop/frontend shop/api --name led --route gateway --host shop.example.com --intercept frontend=web:http --intercept frontend/api=api:8080 -o yaml"},
		{Name: "routing to a workload that there is not", Args: "clone shop/frontend --name led --route gateway --host a.example.com --intercept frontend=api:80"},
		{Name: "routing of a Service that there is not", Args: "clone shop/frontend --name led --route gateway --host a.example.com --intercept api=frontend:80"},
		{Name: "a name that is there", Args: "clone shop/api --name plain"},
		{Name: "without a name", Args: "clone shop/api"},
		{Name: "without a workload", Args: "clone --name x"},
		{Name: "a Baseline that is not offered", Args: "clone bank/api --name x"},
		{Name: "a workload that there is not", Args: "clone shop/nothing --name x"},
		{Name: "a container that two have", Args: "clone shop/api shop/frontend --name x --image app=y"},
		{Name: "a container that there is not", Args: "clone shop/frontend --name x --image main=y"},
		{Name: "waiting for what is only printed", Args: "clone shop/api --name x -o yaml --wait"},
		{Name: "waiting no time", Args: "clone shop/api --name x --wait --timeout 0s"},
		{Name: "another format", Args: "clone shop/api --name x -o wide"},
	})
	for word, want := range map[string]string{"": "shop/frontend shop/api", "shop/f": "shop/frontend", "x": ""} {
		if got := w.Completed(t, "clone", word); got != want {
			t.Errorf("%q is completed by %q, want %q", word, got, want)
		}
	}
}
