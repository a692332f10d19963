// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"net/http"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestWaitReturnsWhenObjectsAreAsTheyShouldBe(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	clitest.Becoming(s, "web", clitest.StateWith("Waking", "False", "its pods are starting"), clitest.StateWith("Ready", "True", ""))
	w.Transcript(t, "wait.golden", []clitest.Turn{
		{Name: "until one is Ready", Args: "wait sandbox web"},
		{Name: "one that is Ready, by kubectl's words", Args: "wait sandbox/web --for condition=Ready"},
		{Name: "one that is not there", Args: "wait sandbox wbe"},
		{Name: "until one is gone that is not there", Args: "wait sandbox wbe --for delete"},
		{Name: "a condition that does not come", Args: "wait sandbox web --for Lost --timeout 10ms"},
		{Name: "until it is not Ready", Args: "wait sandbox web --for Ready=False --timeout 10ms"},
		{Name: "a deletion that does not come", Args: "wait sandbox web --for delete --timeout 10ms"},
		{Name: "without a name", Args: "wait sandboxes"},
		{Name: "a condition that cannot be", Args: "wait sandbox web --for Ready=Maybe"},
		{Name: "no time", Args: "wait sandbox web --timeout 0s"},
	})
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			s.Remove("sandboxes", "default", "web")
		}
		return false
	})
	if code, stdout, stderr := w.Run(t, "wait", "sandbox", "web", "--for", "delete"); code != 0 || stdout != "sandbox.sandbar.dev/web is gone\n" {
		t.Errorf("%d %s %s", code, stdout, stderr)
	}
}
