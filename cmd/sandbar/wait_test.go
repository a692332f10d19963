// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net/http"
	"testing"
)

func TestWaitReturnsWhenObjectsAreAsTheyShouldBe(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	becoming(s, "web", stateWith("Waking", "False", "its pods are starting"), stateWith("Ready", "True", ""))
	w.transcript(t, "wait.golden", []turn{
		{name: "until one is Ready", args: "wait sandbox web"},
		{name: "one that is Ready, by kubectl's words", args: "wait sandbox/web --for condition=Ready"},
		{name: "one that is not there", args: "wait sandbox wbe"},
		{name: "until one is gone that is not there", args: "wait sandbox wbe --for delete"},
		{name: "a condition that does not come", args: "wait sandbox web --for Lost --timeout 10ms"},
		{name: "until it is not Ready", args: "wait sandbox web --for Ready=False --timeout 10ms"},
		{name: "a deletion that does not come", args: "wait sandbox web --for delete --timeout 10ms"},
		{name: "without a name", args: "wait sandboxes"},
		{name: "a condition that cannot be", args: "wait sandbox web --for Ready=Maybe"},
		{name: "no time", args: "wait sandbox web --timeout 0s"},
	})
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			s.Remove("sandboxes", "default", "web")
		}
		return false
	})
	if code, stdout, stderr := w.run(t, "wait", "sandbox", "web", "--for", "delete"); code != 0 || stdout != "sandbox.sandbar.dev/web is gone\n" {
		t.Errorf("%d %s %s", code, stdout, stderr)
	}
}
