// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

func inState(phase, ready, message string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"kind": "SandboxRunner", "spec": map[string]any{"toolchain": "node"}, "status": map[string]any{
		"phase":      phase,
		"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": "R", "message": message, "lastTransitionTime": "2026-01-02T12:00:00Z"}},
	}}}
}

// A crashing app once left dev at "in sync" for ever.
func TestDevSaysThatTheAppDoesNotStayUpWithItsLastLines(t *testing.T) {
	var notes bytes.Buffer
	d := newDevPrinter(&bytes.Buffer{}, &notes, false, false, "")
	f := &stateFollower{
		name: "web", url: "https://plane/proxy/", told: "Materializing: the pods are starting",
		tell: func(state devState) error { return d.state("web", state) },
		crash: func(context.Context) crash {
			return crash{ended: "your program ends with exit code 127", lines: []string{"sh: 1: vite: not found\x1b[2J"}, lacking: true}
		},
		lacking: func(context.Context) bool { return false },
		synced:  func() bool { return true }, unanswered: func(context.Context) (string, bool) { return "", true },
	}
	for _, obj := range []*unstructured.Unstructured{
		{Object: map[string]any{}},
		inState("Materializing", "False", "the pods are starting"), // --create has said so
		inState("Ready", "True", "the instance can be used"), inState("Ready", "True", "the instance can be used"),
		inState("Degraded", "False", "container runner runs and does not report that it is ready; its log tells why. Its last words: vite"),
		inState("Degraded", "False", "container runner runs and does not report that it is ready; its log tells why. Its last words: vite"),
		inState("Ready", "True", "the instance can be used"),
		inState("Materializing", "False", "the pods are starting"), // again, which is news
	} {
		if err := f.observe(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	said := notes.String()
	for text, times := range map[string]int{
		"web is Ready; open it with: sandbar open web --stay (with a token it is at https://plane/proxy/)": 2,
		"web does not stay up: your program ends with exit code 127\n":                                     1,
		"container runner runs":           0,
		"  | sh: 1: vite: not found":      1,
		"sandbar exec web -- npm install": 1,
		"\x1b":                            0,
		"last words":                      0,
		"the pods are starting":           1,
	} {
		if got := strings.Count(said, text); got != times {
			t.Errorf("%q is said %d times, want %d: %s", text, got, times, said)
		}
	}
}

func TestDevSaysTheStateInJSON(t *testing.T) {
	var out bytes.Buffer
	d := newDevPrinter(&out, &bytes.Buffer{}, true, false, "")
	if err := d.state("web", devState{Phase: "Failed", Message: "m", LastLines: []string{"l"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), `{"state":{"phase":"Failed","ready":false,"message":"m","lastLines":["l"]}}`+"\n"; got != want {
		t.Errorf("it prints %s, want %s", got, want)
	}
}

// dev called an app Ready that nothing had been sent to, and one that nobody could open.
func TestDevSaysReadyOfWhatCanBeOpened(t *testing.T) {
	var notes bytes.Buffer
	d := newDevPrinter(&bytes.Buffer{}, &notes, false, false, "")
	synced, known, answer, asked := false, true, "the app listens on the loopback address only", 0
	f := &stateFollower{
		name: "web", url: "https://plane/proxy/",
		tell:    func(state devState) error { return d.state("web", state) },
		crash:   func(context.Context) crash { return crash{} },
		lacking: func(context.Context) bool { return false },
		synced:  func() bool { return synced },
		unanswered: func(context.Context) (string, bool) {
			asked++
			return answer, known
		},
	}
	look := func(phase, ready string, times int) string {
		t.Helper()
		notes.Reset()
		for range times {
			if err := f.observe(t.Context(), inState(phase, ready, "m")); err != nil {
				t.Fatal(err)
			}
		}
		return notes.String()
	}
	if said := look("Ready", "True", 5) + look("Degraded", "False", 2); said != "" || asked > 0 {
		t.Errorf("before the files are there it says %q, and the app was asked %d times", said, asked)
	}
	synced = true
	if said := look("Ready", "True", patience-1); said != "" {
		t.Errorf("of an app that may be starting it says %q", said)
	}
	if said := look("Ready", "True", 3); strings.Count(said, "web runs, and cannot be opened yet: the app listens on the loopback address only") != 1 || strings.Contains(said, "open web") {
		t.Errorf("of an app that cannot be opened it says %q", said)
	}
	answer, known = "", false
	if said := look("Ready", "True", 3); said != "" {
		t.Errorf("while nobody knows it says %q", said)
	}
	known = true
	if said := look("Ready", "True", 3); strings.Count(said, "web is Ready; open it with") != 1 {
		t.Errorf("of an app that answers it says %q", said)
	}
	answer = "nothing listens on port 3000 yet"
	if said := look("Ready", "True", patience); strings.Count(said, "cannot be opened yet: nothing listens") != 1 {
		t.Errorf("of an app that moved elsewhere it says %q", said)
	}
	if said := look("Suspending", "False", 1) + look("Suspended", "False", 2); strings.Count(said, "\n") != 1 || !strings.Contains(said, "web is Suspended") {
		t.Errorf("of a suspension it says %q", said)
	}
}

// A suspension is one event: the state tells it, and neither the log nor the files do as well.
func TestDevTellsASuspensionOnce(t *testing.T) {
	var notes bytes.Buffer
	d := newDevPrinter(&bytes.Buffer{}, &notes, false, false, "")
	suspended := &client.CallError{Code: 409, Message: "the instance is suspended by its tenant", Cause: sandbarv1alpha1.CauseSuspended}
	for _, e := range []client.LogEvent{
		{Type: client.LogConnected},
		{Type: client.LogDisconnected, Err: errors.New("reading a record: stream error: stream ID 5; INTERNAL_ERROR; received from peer")},
		{Type: client.LogDisconnected, Err: suspended},
		{Type: client.LogDisconnected, Err: suspended},
	} {
		if err := d.log(e); err != nil {
			t.Fatal(err)
		}
	}
	d.event(devsync.Event{Type: devsync.EventLost, Reason: suspended.Message, Suspended: true})
	if err := d.state("web", devState{Phase: "Suspended", Message: "m"}); err != nil {
		t.Fatal(err)
	}
	if said := notes.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "web is Suspended: m") {
		t.Errorf("it says %q", said)
	}
	// It is said when the log goes on, and a connection that breaks for another reason is.
	notes.Reset()
	for _, e := range []client.LogEvent{
		{Type: client.LogConnected},
		{Type: client.LogDisconnected, Err: errors.New("stream error: stream ID 7; CANCEL")},
		{Type: client.LogConnected},
	} {
		if err := d.log(e); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"the log goes on", "the connection to the log is lost (the other side ended it)", "the log goes on"}
	for _, line := range want {
		if !strings.Contains(notes.String(), line) || strings.Contains(notes.String(), "stream") {
			t.Errorf("it says %q, want %q", notes.String(), line)
		}
	}
}
