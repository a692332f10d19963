// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package catalogue

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

const catalogueOfTest = `{"items": [
  {"name": "sandbox", "displayName": "Sandbox", "version": "0.1.0", "category": "Developer", "instanceAPIVersion": "sandbar.dev/v1alpha1", "instanceKind": "Sandbox",
   "resource": "sandboxes", "verbs": ["exec", "log"], "description": "One isolated pod\nof your own template. Follow its log.",
   "agent": {"usage": "Choose this to run an image of your own.", "outputs": ["log: what a container prints, live", "exec: a \u001b[2Jcommand"]}},
  {"name": "node-22", "displayName": "", "version": "1\u001b[2J", "instanceAPIVersion": "sandbar.dev/v1alpha1", "instanceKind": "Node", "resource": "nodes", "verbs": null, "offersPod": true}
]}`

// withCatalogue has the workspace bound to the world's data plane, which answers the catalogue.
func withCatalogue(t *testing.T, w *world) {
	t.Helper()
	s := w.Stocked(t)
	s.Put("apibindings", map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
		"metadata": map[string]any{"name": "sandbar.dev", "annotations": map[string]any{"extra.apis.kcp.io/dataplane-url": w.URL}},
	})
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/dataplane/clusters/root:me/templates" {
			t.Errorf("it asked for %s", r.URL.Path)
		}
		fmt.Fprint(rw, catalogueOfTest)
	})
}

func TestTemplatesShowsWhatTheProviderOffers(t *testing.T) {
	w := newWorld(t)
	withCatalogue(t, w)
	w.Transcript(t, "templates.golden", []clitest.Turn{
		{Name: "all", Args: "templates"},
		{Name: "one", Args: "templates sandbox"},
		{Name: "one that offers a pod", Args: "templates node-22"},
		{Name: "one that is not there", Args: "templates redis"},
		{Name: "for programs", Args: "templates node-22 -o json"},
		{Name: "a format that there is not", Args: "templates -o wide"},
		{Name: "two", Args: "templates a b"},
	})
	w.Stocked(t) // without a binding
	if code, _, stderr := w.Run(t, "templates"); code != 0 || stderr != "The workspace has no binding to a provider that offers Templates: bring its kinds into it with sandbar bind.\n" {
		t.Errorf("%d %s", code, stderr)
	}
}

// The catalogue comes from the data plane: the token goes there only if the person has trusted it.
func TestTemplatesSendsNoTokenToADataPlaneThatIsNotTrusted(t *testing.T) {
	w := newWorld(t)
	withCatalogue(t, w)
	w.Trust = filepath.Join(t.TempDir(), "none.json")
	w.Serve(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	code, _, stderr := w.Run(t, "templates")
	if code != cli.ExitFailure || !strings.HasPrefix(stderr, "sandbar: the data plane "+w.URL+" is not trusted with your credential. If it is your provider's, run: sandbar trust ") {
		t.Errorf("%d %s", code, stderr)
	}
}

func TestTemplatesSaysWhyTheCatalogueIsRefused(t *testing.T) {
	w := newWorld(t)
	withCatalogue(t, w)
	w.Serve(clitest.Refusing(http.StatusForbidden, "Forbidden", "you have no access to the workspace"))
	if code, _, stderr := w.Run(t, "templates"); code != cli.ExitFailure || stderr != "sandbar: reading the catalogue: 403: you have no access to the workspace\n" {
		t.Errorf("%d %s", code, stderr)
	}
}
