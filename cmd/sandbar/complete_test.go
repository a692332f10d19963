// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestKindsAndNamesAreCompletedFromTheWorkspace(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	s.Put("namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "default"}})
	s.Put("namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "other"}})
	for line, want := range map[string]string{
		"get ":                                   "sandboxes=Sandbox sandboxrunners=SandboxRunner sandboxsets=SandboxSet",
		"get sandboxs":                           "sandboxsets=SandboxSet",
		"get sbx":                                "sbx=Sandbox",
		"get pods":                               "",
		"get sandboxes ":                         "api web",
		"get sandboxes w":                        "web",
		"get sandboxes web ":                     "api",
		"get sandboxes -n other ":                "new",
		"get sbx/w":                              "sbx/web",
		"get sbx/web ":                           "",
		"describe sandbox a":                     "api",
		"delete sandboxset ":                     "warm",
		"label sandbox we":                       "web",
		"create sandboxse":                       "sandboxsets=SandboxSet",
		"get sandboxes -o ":                      "json yaml name wide jsonpath= custom-columns=",
		"logs ":                                  "api app web",
		"logs sbx/":                              "sbx/api sbx/web",
		"logs sandboxrunner/a":                   "sandboxrunner/app",
		"suspend we":                             "web",
		"logs --resource sandboxes.sandbar.dev ": "api web",
		"exec a":                                 "api app",
		"get sandboxes -n o":                     "other",
		"logs x --resource sandboxe":             "sandboxes.sandbar.dev",
		"get sandboxes --context ":               "w",
	} {
		if got := w.Completed(t, strings.Split(line, " ")...); got != want {
			t.Errorf("%q is completed by %q, want %q", line, got, want)
		}
	}
}

// A person who presses the tab key is not shown an error in the middle of the line.
func TestCompletionIsQuietWhenTheWorkspaceRefuses(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	s.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Add("Warning", `299 - "deprecated"`)
		http.Error(rw, "no", http.StatusForbidden)
		return true
	})
	for _, line := range []string{"get ", "get sandboxes ", "get sandboxes -n ", "logs ", "get sbx/"} {
		code, _, stderr := w.Run(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if got := w.Completed(t, strings.Split(line, " ")...); code != 0 || got != "" || strings.Contains(stderr, "no") || strings.Contains(stderr, "deprecated") {
			t.Errorf("%q: %d %q %q", line, code, got, stderr)
		}
	}
}
