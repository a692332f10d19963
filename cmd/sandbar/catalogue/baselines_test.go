// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package catalogue

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

const baselinesOfTest = `{"items": [
  {"name": "storefront", "displayName": "Shop", "description": "The shop as it runs\nin staging. Three services.", "aliases": ["storefront", "payments"],
   "disclosure": "Summary", "ready": true, "workloadsFound": 4, "servicesFound": 1,
   "workloads": [
     {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "storefront", "name": "frontend", "replicas": 2, "containers": [
       {"name": "app", "image": "ghcr.io/acme/frontend:1.4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]},
       {"name": "sidecar", "image": "ghcr.io/acme/\u001b[2Jsidecar:1"}]},
     {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "namespace": "payments", "name": "worker", "replicas": 1}],
   "services": [{"namespace": "storefront", "name": "frontend", "ports": [{"port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]}],
   "routing": {"gateways": [{"namespace": "edge", "name": "public"}, {"namespace": "edge", "name": "public", "sectionName": "web\u001b[2J"}], "hostnames": ["*.shop.example.com"], "proxy": true}},
  {"name": "archive", "displayName": "Archive\u001b[2J", "aliases": ["archive"], "disclosure": "Summary", "ready": false, "workloadsFound": 0, "servicesFound": 0}
]}`

// withBaselines has the workspace's data plane offer Baselines.
func withBaselines(t *testing.T, w *world) {
	t.Helper()
	withCatalogue(t, w)
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/dataplane/clusters/root:me/baselines" {
			t.Errorf("it asked for %s", r.URL.Path)
		}
		var all struct {
			Items []map[string]any `json:"items"`
		}
		if err := json.Unmarshal([]byte(baselinesOfTest), &all); err != nil {
			t.Error(err)
		}
		items := []map[string]any{}
		for _, item := range all.Items {
			if name := r.URL.Query().Get("name"); name == "" || name == item["name"] {
				items = append(items, item)
			}
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"items": items})
	})
}

func TestBaselinesShowsWhatIsOfferedToTheWorkspace(t *testing.T) {
	w := newWorld(t)
	withBaselines(t, w)
	w.Transcript(t, "baselines.golden", []clitest.Turn{
		{Name: "all", Args: "baselines"},
		{Name: "one", Args: "baselines storefront"},
		{Name: "one in which nothing was found", Args: "baselines archive"},
		{Name: "one that is not offered", Args: "baselines billing"},
		{Name: "for programs", Args: "baselines -o json"},
		{Name: "as YAML", Args: "baselines archive -o yaml"},
		{Name: "a format that there is not", Args: "baselines -o wide"},
		{Name: "two", Args: "baselines a b"},
	})
	for word, want := range map[string]string{"": "storefront archive", "s": "storefront", "x": ""} {
		if got := w.Completed(t, "baselines", word); got != want {
			t.Errorf("%q is completed by %q, want %q", word, got, want)
		}
	}
	w.Serve(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(`{"items": []}`)) })
	if code, stdout, stderr := w.Run(t, "baselines"); code != 0 || stdout != "" || !strings.HasPrefix(stderr, "No Baseline is offered to this workspace.") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if code, stdout, _ := w.Run(t, "baselines", "-o", "json"); code != 0 || stdout != "" {
		t.Errorf("%d %s", code, stdout)
	}
}

// The catalogue comes from the data plane: the token goes there only if the person has trusted it.
func TestBaselinesSendsNoTokenToADataPlaneThatIsNotTrusted(t *testing.T) {
	w := newWorld(t)
	withBaselines(t, w)
	w.Trust = filepath.Join(t.TempDir(), "none.json")
	w.Serve(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	code, _, stderr := w.Run(t, "baselines")
	if code != cli.ExitFailure || !strings.HasPrefix(stderr, "sandbar: the data plane "+w.URL+" is not trusted with your credential.") {
		t.Errorf("%d %s", code, stderr)
	}
	if got := w.Completed(t, "baselines", ""); got != "" {
		t.Errorf("it completes %q", got)
	}
}
