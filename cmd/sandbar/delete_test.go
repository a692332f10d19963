// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestDeleteDeletesWhatIsMeant(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	w.transcript(t, "delete.golden", []turn{
		{name: "a dry run", args: "delete sandbox web --dry-run"},
		{name: "a version that it does not have", args: "delete sandbox web --resource-version 7"},
		{name: "one that is not there", args: "delete sandbox wbe"},
		{name: "one that may not be there", args: "delete sandbox wbe --ignore-not-found"},
		{name: "by a label that none has", args: "delete sandboxes -l env=stage"},
		{name: "by name", args: "delete sandbox api"},
		{name: "by a label, in all namespaces", args: "delete sandboxes -A -l env=prod -o name"},
		{name: "all of a kind", args: "delete sandboxrunners --all"},
		{name: "all of a kind that has none", args: "delete sandboxrunners --all"},
		{name: "the version that it has", args: "delete sandboxset warm --resource-version " + s.Object("sandboxsets", "default", "warm").GetResourceVersion()},
		{name: "without a name", args: "delete sandboxes"},
		{name: "a name and all", args: "delete sandbox web --all"},
		{name: "a selector and all", args: "delete sandboxes -l env=prod --all"},
		{name: "a version of two", args: "delete sandbox web api --resource-version 7"},
		{name: "a format that there is not", args: "delete sandbox web -o yaml"},
		{name: "no time to wait", args: "delete sandbox web --timeout 0s"},
	})
}

func TestDeleteWaitsUntilTheObjectIsGone(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	obj := s.Object("sandboxes", "default", "web")
	obj.SetFinalizers([]string{"sandbar.dev/placement"})
	s.Put("sandboxes", obj.Object)
	if code, stdout, _ := w.run(t, "delete", "sandbox", "web", "--wait=false"); code != 0 || stdout != "sandbox.sandbar.dev/web deleted\n" {
		t.Errorf("%d %s", code, stdout)
	}
	if code, _, stderr := w.run(t, "delete", "sandbox", "web", "--timeout", "100ms"); code != exitFailure || stderr != "sandbar: web is still being deleted after 100ms; --timeout gives it longer\n" {
		t.Errorf("%d %s", code, stderr)
	}
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			s.Remove("sandboxes", "default", "web")
		}
		return false
	})
	if code, _, stderr := w.run(t, "delete", "sandbox", "web"); code != 0 || stderr != "" {
		t.Errorf("%d %s", code, stderr)
	}
}

// Between the read and the deletion somebody deletes the object and creates another one under its name.
func TestDeleteSparesAnotherObjectOfTheName(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			s.Remove("sandboxes", "default", "web")
			s.Put("sandboxes", map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "metadata": map[string]any{"name": "web"}})
		}
		return false
	})
	code, _, stderr := w.run(t, "delete", "sandbox", "web")
	if code != exitFailure || !strings.HasPrefix(stderr, "sandbar: the Sandbox web was deleted and created again since you read it") || s.Object("sandboxes", "default", "web") == nil {
		t.Errorf("%d %s", code, stderr)
	}
}
