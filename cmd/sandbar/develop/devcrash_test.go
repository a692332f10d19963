// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// developed is the one part of an instance whose runner starts a command; the data plane's names are mapped.
func developed(t *testing.T, command string) session.Part {
	t.Helper()
	w := newWorld(t)
	w.WithRunner(t, command)
	w.Verbs = []string{"log", "process"}
	behind := w.Plane
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.Replace(r.URL.Path, "/process", "/status", 1)
		behind(rw, r)
	})
	s := &target{&cli.Target{Kubeconfig: w.Kubeconfig, TrustFile: w.Trust, Resource: client.SandboxRunners.GroupResource().String()}}
	web, err := s.Instance(t.Context(), "web", "exec")
	if err != nil {
		t.Fatal(err)
	}
	return session.Part{Instance: web}
}

// The first start says "start 1", the second "start 2", and so on.
const counts = `n=$(($(cat n 2>/dev/null || echo 0) + 1)); echo $n >n; echo "start $n"; `

func TestDevSaysHowAnAppEndsAndWhatItsLastStartPrinted(t *testing.T) {
	for name, c := range map[string]struct {
		command, ended, lastLine string
		lacking                  bool
	}{
		"an exit code":               {counts + "echo boom >&2; exit 3", "your program ends with exit code 3", "boom", false},
		"a success":                  {counts + "echo done", "your program ends, with exit code 0: what serves has to keep running", "done", false},
		"a signal":                   {counts + "kill -9 $$", "your program is ended by SIGKILL", "start", false},
		"a program that is missing":  {counts + "exec no-such-program", "your program ends with exit code 127", "not found", true},
		"a module that is missing":   {counts + `echo "Error: Cannot find module 'express'" >&2; exit 1`, "your program ends with exit code 1", "express", true},
		"an error that names no one": {counts + `echo "SyntaxError: Unexpected token" >&2; exit 1`, "your program ends with exit code 1", "SyntaxError", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := developed(t, c.command)
			var got crash
			await := func() bool {
				got = crashesOf(t.Context(), []session.Part{p})
				return got.ended != ""
			}
			for !await() { // two starts that end quickly
				if t.Context().Err() != nil {
					t.Fatal("it does not crash")
				}
			}
			if got.ended != c.ended || got.lacking != c.lacking {
				t.Errorf("it says %q, and that something is missing: %t", got.ended, got.lacking)
			}
			starts := 0
			for _, line := range got.lines {
				if strings.HasPrefix(line, "start ") {
					starts++
				}
			}
			if starts > 1 || !slices.ContainsFunc(got.lines, func(line string) bool { return strings.Contains(line, c.lastLine) }) {
				t.Errorf("the last lines are %q", got.lines)
			}
			p.Component = "web"
			if named := crashesOf(t.Context(), []session.Part{p}); named.ended != "web: "+c.ended {
				t.Errorf("of a component it says %q", named.ended)
			}
		})
	}
}

// An app that was being started again while dev asked was told with the first lines of that start alone.
func TestDevTellsTheLinesOfTheStartThatEndedAndNotOfTheNext(t *testing.T) {
	p := developed(t, counts+`[ $n -lt 3 ] || exec sleep 300; echo "boom $n"; exit 3`)
	for !slices.Contains(lastLinesOf(t.Context(), p.Instance, 0), "start 3") {
		if t.Context().Err() != nil {
			t.Fatal("it is not started a third time")
		}
	}
	got := crashOf(t.Context(), p.Instance)
	if want := []string{"start 2", "boom 2"}; got.ended == "" || !slices.Equal(got.lines, want) {
		t.Errorf("it is told that %q with %q, want %q", got.ended, got.lines, want)
	}
}

func TestDevTellsToInstallOnlyWhereSomethingIsMissing(t *testing.T) {
	for _, lacking := range []bool{true, false} {
		var notes bytes.Buffer
		d := newDevPrinter(&bytes.Buffer{}, &notes, false, false, "")
		state := devState{Phase: "Degraded", Message: "m", toolchain: "node", Ended: "your program ends with exit code 1", lacking: lacking, LastLines: []string{"l"}}
		if err := d.state("web", state); err != nil {
			t.Fatal(err)
		}
		if said := notes.String(); strings.Contains(said, "npm install") != lacking || !strings.Contains(said, "web does not stay up: your program ends with exit code 1\n") {
			t.Errorf("missing: %t; it says %s", lacking, said)
		}
	}
}

// A changed start command replaces the pod: the state says so, and no connection is lost for it.
func TestDevDoesNotCallAReplacedPodALostConnection(t *testing.T) {
	var notes bytes.Buffer
	d := newDevPrinter(&bytes.Buffer{}, &notes, false, false, "")
	for _, e := range []client.LogEvent{
		{Type: client.LogConnected},
		{Type: client.LogDisconnected},
		{Type: client.LogDisconnected, Err: &client.CallError{Code: http.StatusConflict, Message: "the instance is not ready: the pods are starting"}},
		{Type: client.LogReplaced},
		{Type: client.LogConnected},
	} {
		if err := d.log(e); err != nil {
			t.Fatal(err)
		}
	}
	if said := notes.String(); strings.Contains(said, "lost") || !strings.Contains(said, "the log goes on") {
		t.Errorf("it says %s", said)
	}
}
