// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/top"
)

const (
	ctrlL = "\x0c"
	// leaves is what a program writes that gives back the screen as it was before a full one.
	leaves = "\x1b[?1049l"
)

// withWeb has the workspace of stocked with the SandboxRunner web, whose data plane is the world's own.
func (w *world) withWeb(t *testing.T) *objecttest.Server {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	s := w.stocked(t)
	s.Put("sandboxrunners", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
		"metadata": map[string]any{"name": "webapp", "uid": "uid-of-webapp", "creationTimestamp": daysAgo(2)},
		"spec":     map[string]any{"toolchain": "node"},
		"status": map[string]any{"phase": "Ready", "observedGeneration": int64(1), "dataPlane": map[string]any{
			"url": w.url + "/dataplane/clusters/c1/namespaces/default/sandboxrunners/web", "verbs": []any{"exec", "log", "restart", "renew"},
		}},
	})
	return s
}

// shows waits until the screen has a word. It has it drawn again ten times a second, since a program draws only what
// differs; more often, a busy machine would do nothing else.
func (a *atTerminal) shows(word string) {
	a.t.Helper()
	late := time.After(3 * time.Minute)
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for {
		before := a.screen.String()
		a.press(ctrlL)
		select {
		case <-pace.C:
		case <-late:
			a.t.Fatalf("%q is not on the screen; the program has written %q", word, before)
		}
		if strings.Contains(a.screen.String()[len(before):], word) {
			return
		}
	}
}

func TestTopShowsSandboxesAndActsOnThem(t *testing.T) {
	w := newWorld(t)
	w.withRunner(t, `printf 'from-the-app\n\033]0;evil\007'; exec sleep 1000`)
	s := w.withWeb(t)
	a := w.atTerminal(t, "top")
	a.shows("webapp")
	a.shows("root:me")
	for _, other := range []string{"api", "app", "Suspended", "node-22"} {
		a.shows(other)
	}
	a.press("/webapp\r")
	a.shows("(Esc)")
	a.press("l")
	a.shows("from-the-app")
	a.press("l")
	a.press("d")
	a.shows("uid-of-webapp")
	a.press("d")
	a.press("R")
	a.shows("restarted")
	a.press("s")
	a.shows("suspended")
	if got := s.Object("sandboxrunners", "default", "webapp").Object["spec"].(map[string]any)["suspended"]; got != true {
		t.Errorf("spec.suspended is %v", got)
	}
	a.press("D")
	a.shows("volumes?")
	a.press("n")
	if a.shows("not"); s.Object("sandboxrunners", "default", "webapp") == nil {
		t.Fatal("it is deleted although the answer was no")
	}
	a.press("D")
	a.press("y")
	a.shows("matches")
	if s.Object("sandboxrunners", "default", "webapp") != nil {
		t.Error("it is not deleted")
	}
	a.press("q")
	a.ends(0)
	await(t, a.screen, leaves)
	if strings.Contains(a.screen.String(), "\x1b]0;evil") {
		t.Error("the sandbox has set the title of the terminal")
	}
}

func TestTopGivesTheTerminalToAShellAndTakesItBack(t *testing.T) {
	w := newWorld(t)
	w.withRunner(t, "exec sleep 1000")
	s := w.withWeb(t)
	a := w.atTerminal(t, "top")
	a.shows("webapp")
	a.press("/webapp\r")
	a.shows("(Esc)")
	a.press("x")
	await(t, a.screen, leaves) // the terminal is the shell's from here on
	a.press("echo answer-$((40+2))\r")
	await(t, a.screen, "answer-42")
	a.press("exit 3\r")
	a.shows("ended")
	s.Remove("sandboxrunners", "default", "webapp")
	a.shows("matches")
	a.press("q")
	a.ends(0)
}

func TestTopFollowsChangesAndSurvivesALostConnection(t *testing.T) {
	w := newWorld(t)
	s := w.withWeb(t)
	a := w.atTerminal(t, "top")
	a.shows("webapp")
	s.Put("sandboxes", map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "metadata": map[string]any{"name": "newcomer", "uid": "n"}, "spec": map[string]any{}})
	a.shows("newcomer")
	s.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			objecttest.Refuse(rw, apierrors.NewServiceUnavailable("the-shard-is-away"))
			return true
		}
		return false
	})
	s.CutWatches()
	a.shows("the-shard-is-away")
	s.Remove("sandboxes", "default", "newcomer")
	s.Intercept(nil)
	for { // the line is gone once all kinds are watched
		before, grown := a.screen.look()
		a.press(ctrlL)
		<-grown
		now, _ := a.screen.look()
		if drawn := now[len(before):]; strings.Contains(drawn, "quit") && !strings.Contains(drawn, "the-shard-is-away") && !strings.Contains(drawn, "newcomer") {
			break
		}
	}
	a.resize(12, 40)
	a.shows("webapp")
	a.press("q")
	a.ends(0)
}

func TestTopSaysWhichRightIsMissing(t *testing.T) {
	w := newWorld(t)
	s := w.withWeb(t)
	s.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch || strings.HasSuffix(r.URL.Path, "/sandboxsets") {
			objecttest.Refuse(rw, apierrors.NewForbidden(schema.GroupResource{Group: "sandbar.dev", Resource: "sandboxes"}, "web", errors.New("no-such-right")))
			return true
		}
		return false
	})
	a := w.atTerminal(t, "top")
	a.shows("webapp")
	a.shows("sandboxsets") // cannot be listed, and the others are there
	a.press("/webapp\r")
	a.press("s")
	a.shows("denies")
	a.press("q")
	a.ends(0)
}

func TestTopGivesTheTerminalBackHoweverItEnds(t *testing.T) {
	for name, end := range map[string]func(a *atTerminal){
		"by Ctrl-C":           func(a *atTerminal) { a.press(ctrlC) },
		"by SIGTERM":          func(a *atTerminal) { _ = a.process.Process.Signal(syscall.SIGTERM) },
		"by SIGINT":           func(a *atTerminal) { _ = a.process.Process.Signal(syscall.SIGINT) },
		"by SIGHUP":           func(a *atTerminal) { _ = a.process.Process.Signal(syscall.SIGHUP) },
		"while one types":     func(a *atTerminal) { a.press("/x" + ctrlC) },
		"in the help":         func(a *atTerminal) { a.press("?" + ctrlC) },
		"while a log is read": func(a *atTerminal) { a.press("l" + ctrlC) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withWeb(t)
			a := w.atTerminal(t, "top", "-A")
			a.shows("webapp")
			end(a)
			a.ends(exitInterrupted)
			await(t, a.screen, leaves)
		})
	}
}

func TestTopShowsAThousandSandboxes(t *testing.T) {
	w := newWorld(t)
	s := w.withWeb(t)
	for i := range 1000 {
		s.Put("sandboxes", map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "metadata": map[string]any{"name": fmt.Sprintf("sandbox-%04d", i), "creationTimestamp": daysAgo(1)},
			"spec": map[string]any{}, "status": map[string]any{"phase": "Ready"},
		})
	}
	a := w.atTerminal(t, "top")
	a.shows("1004")
	a.press("/0999\r")
	a.shows("sandbox-0999")
	a.press("q")
	a.ends(0)
}

func TestTopNeedsATerminal(t *testing.T) {
	w := newWorld(t)
	s := w.withObjects(t)
	w.transcript(t, "top.golden", []turn{
		{name: "no terminal", args: "top"},
		{name: "an argument", args: "top sandboxes"},
		{name: "a kind", args: "top --resource sandboxes.sandbar.dev"},
		{name: "a selector that does not parse", args: "top -l 'env in prod'"},
	})
	if asked := s.Requests(); len(asked) > 0 {
		t.Errorf("it asked the workspace: %v", asked)
	}
	t.Setenv("TERM", "dumb")
	a := w.atTerminal(t, "top")
	await(t, a.screen, "cannot move its cursor (dumb): use sandbar get KIND")
	a.ends(exitUsage)
	if slices.ContainsFunc([]string{"\x1b[?1049h", "\x1b[2J"}, func(s string) bool { return strings.Contains(a.screen.String(), s) }) {
		t.Error("it draws nevertheless")
	}
}

// Both show the same object with the same words.
func TestTopHasTheCellsOfGet(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	now := time.Now()
	for _, name := range []string{"web", "api"} {
		obj := s.Object("sandboxes", "default", name)
		k := object.Kind{Singular: "sandbox"}
		cells := rowOf(k, obj).Cells(now)
		cells = slices.Delete(cells, 1, 3) // without the namespace and the kind
		cells = cells[:len(cells)-1]       // and without the start
		var want []string
		for _, cell := range instanceCells(showing{}, object.Item{Unstructured: obj}, now) {
			want = append(want, cell.(string))
		}
		if !slices.Equal(cells, want) {
			t.Errorf("top shows %q, and get %q", cells, want)
		}
	}
}

func TestTheArgumentsOfAShellLeadToTheSameWorkspace(t *testing.T) {
	s := target{kubeconfig: "k", trustFile: "t"}
	s.overrides.CurrentContext, s.overrides.ClusterInfo.Server = "c", "https://x"
	args := s.shellArgs(top.Row{Resource: "sandboxes.sandbar.dev", Namespace: "n", Name: "web"})
	root := newRootCommand()
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.Name() != "exec" || rest[0] != "web" || cmd.ParseFlags(rest) != nil {
		t.Fatalf("%v %v", rest, err)
	}
	for flag, want := range map[string]string{
		"kubeconfig": "k", "trust-file": "t", "context": "c", "server": "https://x", "namespace": "n", "resource": "sandboxes.sandbar.dev",
	} {
		if got := cmd.Flag(flag).Value.String(); got != want {
			t.Errorf("--%s %s, want %s", flag, got, want)
		}
	}
}
