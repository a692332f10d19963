// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestTheLogOfASuspendedSandboxCanBeRead: of an app that the runner runs, and of a container of an image of
// one's own. A stranger reads neither.
func TestTheLogOfASuspendedSandboxCanBeRead(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	web := tn.create(runners, "SandboxRunner", "web", map[string]any{"projectRef": "e2e", "startCommand": "echo it runs; echo it complains >&2; exec sleep 1d"})
	notesBox := tn.create(sandboxes, "Sandbox", "notes", sampleSandbox(t))
	boxes := []*instance{web, notesBox}
	for _, box := range boxes {
		box.waitReady()
	}
	eventually(t, "the log of web", func() error {
		if _, out, _ := s.run("logs", "web"); !strings.Contains(out, "it complains") {
			return fmt.Errorf("it is %q", out)
		}
		return nil
	})
	before := s.must("--resource", "sandboxes.sandbar.dev", "logs", "notes")

	for _, box := range boxes {
		box.change(`{"suspended": true}`)
	}
	for _, box := range boxes {
		box.waitState("Suspended", "Composed", "ByUser", "SandboxPodDeleted")
	}
	code, out, notes := s.run("logs", "web")
	if code != 0 || !strings.Contains(out, "it runs\n") || !strings.Contains(out, "it complains\n") || strings.Contains(out, "sandbar-runner") {
		t.Errorf("the log of web is (%d) %q, %q", code, out, notes)
	}
	if !strings.Contains(notes, "it is suspended; this is the end of its log as it was at ") {
		t.Errorf("it says %q", notes)
	}
	if out := s.must("--resource", "sandboxes.sandbar.dev", "logs", "notes"); !strings.HasPrefix(out, before) {
		t.Errorf("the log of notes is %q, and was %q", out, before)
	}
	if out := s.must("logs", "web", "--tail", "1"); strings.Count(out, "\n") != 1 {
		t.Errorf("one line is %q", out)
	}
	code, _, notes = s.run("logs", "-f", "web")
	if code != 1 || !strings.Contains(notes, "suspended") {
		t.Errorf("to follow it ends with %d and %q", code, notes)
	}
	callAs(t, world.Stack.Token("dave")).wantStatus(http.StatusForbidden, http.MethodGet, web.base()+"/log", nil)
	// The status is for everybody who may read the instance, and the log is not.
	obj, err := web.get()
	if err != nil {
		t.Fatal(err)
	}
	if status := fmt.Sprint(obj.Object["status"]); strings.Contains(status, "it complains") {
		t.Errorf("the status has lines of the log: %s", status)
	}
}
