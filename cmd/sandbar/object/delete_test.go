// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestDeleteDeletesWhatIsMeant(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	w.Transcript(t, "delete.golden", []clitest.Turn{
		{Name: "a dry run", Args: "delete sandbox web --dry-run"},
		{Name: "a version that it does not have", Args: "delete sandbox web --resource-version 7"},
		{Name: "one that is not there", Args: "delete sandbox wbe"},
		{Name: "one that may not be there", Args: "delete sandbox wbe --ignore-not-found"},
		{Name: "by a label that none has", Args: "delete sandboxes -l env=stage"},
		{Name: "by name", Args: "delete sandbox api"},
		{Name: "by a label, in all namespaces", Args: "delete sandboxes -A -l env=prod -o name"},
		{Name: "all of a kind", Args: "delete sandboxrunners --all"},
		{Name: "all of a kind that has none", Args: "delete sandboxrunners --all"},
		{Name: "the version that it has", Args: "delete sandboxset warm --resource-version " + s.Object("sandboxsets", "default", "warm").GetResourceVersion()},
		{Name: "without a name", Args: "delete sandboxes"},
		{Name: "a name and all", Args: "delete sandbox web --all"},
		{Name: "a selector and all", Args: "delete sandboxes -l env=prod --all"},
		{Name: "a version of two", Args: "delete sandbox web api --resource-version 7"},
		{Name: "a format that there is not", Args: "delete sandbox web -o yaml"},
		{Name: "no time to wait", Args: "delete sandbox web --timeout 0s"},
	})
}

func TestDeleteWaitsUntilTheObjectIsGone(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	obj := s.Object("sandboxes", "default", "web")
	obj.SetFinalizers([]string{"sandbar.dev/placement"})
	s.Put("sandboxes", obj.Object)
	if code, stdout, _ := w.Run(t, "delete", "sandbox", "web", "--wait=false"); code != 0 || stdout != "sandbox.sandbar.dev/web deleted\n" {
		t.Errorf("%d %s", code, stdout)
	}
	if code, _, stderr := w.Run(t, "delete", "sandbox", "web", "--timeout", "100ms"); code != cli.ExitFailure || stderr != "sandbar: web is still being deleted after 100ms; --timeout gives it longer\n" {
		t.Errorf("%d %s", code, stderr)
	}
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			s.Remove("sandboxes", "default", "web")
		}
		return false
	})
	if code, _, stderr := w.Run(t, "delete", "sandbox", "web"); code != 0 || stderr != "" {
		t.Errorf("%d %s", code, stderr)
	}
}

// Between the read and the deletion somebody deletes the object and creates another one under its name.
func TestDeleteSparesAnotherObjectOfTheName(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			s.Remove("sandboxes", "default", "web")
			s.Put("sandboxes", map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "metadata": map[string]any{"name": "web"}})
		}
		return false
	})
	code, _, stderr := w.Run(t, "delete", "sandbox", "web")
	if code != cli.ExitFailure || !strings.HasPrefix(stderr, "sandbar: the Sandbox web was deleted and created again since you read it") || s.Object("sandboxes", "default", "web") == nil {
		t.Errorf("%d %s", code, stderr)
	}
}
