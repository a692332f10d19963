// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

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
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
	objectcmd "github.com/sandbar-dev/sandbar/cmd/sandbar/object"
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
	s := w.Stocked(t)
	s.Put("sandboxrunners", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
		"metadata": map[string]any{"name": "webapp", "uid": "uid-of-webapp", "creationTimestamp": clitest.DaysAgo(2)},
		"spec":     map[string]any{"toolchain": "node"},
		"status": map[string]any{"phase": "Ready", "observedGeneration": int64(1), "dataPlane": map[string]any{
			"url": w.AddressOf("sandboxrunners", "webapp"), "verbs": []any{"exec", "log", "restart", "renew"},
		}},
	})
	return s
}

// shows waits until the screen has a word. It has it drawn again ten times a second, since a program draws only what
// differs; more often, a busy machine would do nothing else.
func shows(a *clitest.AtTerminal, word string) {
	a.T.Helper()
	late := time.After(3 * time.Minute)
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for {
		before := a.Screen.String()
		a.Press(ctrlL)
		select {
		case <-pace.C:
		case <-late:
			a.T.Fatalf("%q is not on the screen; the program has written %q", word, before)
		}
		if strings.Contains(a.Screen.String()[len(before):], word) {
			return
		}
	}
}

func TestTopShowsSandboxesAndActsOnThem(t *testing.T) {
	w := newWorld(t)
	w.WithRunner(t, `printf 'from-the-app\n\033]0;evil\007'; exec sleep 1000`)
	s := w.withWeb(t)
	a := w.AtTerminal(t, "top")
	shows(a, "webapp")
	shows(a, "root:me")
	for _, other := range []string{"api", "app", "Suspended", "node-22"} {
		shows(a, other)
	}
	a.Press("/webapp\r")
	shows(a, "(Esc)")
	a.Press("l")
	shows(a, "from-the-app")
	a.Press("l")
	a.Press("d")
	shows(a, "uid-of-webapp")
	a.Press("d")
	a.Press("R")
	shows(a, "restarted")
	a.Press("s")
	shows(a, "suspended")
	if got := s.Object("sandboxrunners", "default", "webapp").Object["spec"].(map[string]any)["suspended"]; got != true {
		t.Errorf("spec.suspended is %v", got)
	}
	a.Press("D")
	shows(a, "volumes?")
	a.Press("n")
	if shows(a, "not"); s.Object("sandboxrunners", "default", "webapp") == nil {
		t.Fatal("it is deleted although the answer was no")
	}
	a.Press("D")
	a.Press("y")
	shows(a, "matches")
	if s.Object("sandboxrunners", "default", "webapp") != nil {
		t.Error("it is not deleted")
	}
	a.Press("q")
	a.Ends(0)
	clitest.Await(t, a.Screen, leaves)
	if strings.Contains(a.Screen.String(), "\x1b]0;evil") {
		t.Error("the sandbox has set the title of the terminal")
	}
}

func TestTopGivesTheTerminalToAShellAndTakesItBack(t *testing.T) {
	w := newWorld(t)
	w.WithRunner(t, "exec sleep 1000")
	s := w.withWeb(t)
	a := w.AtTerminal(t, "top")
	shows(a, "webapp")
	a.Press("/webapp\r")
	shows(a, "(Esc)")
	a.Press("x")
	clitest.Await(t, a.Screen, leaves) // the terminal is the shell's from here on
	a.Press("echo answer-$((40+2))\r")
	clitest.Await(t, a.Screen, "answer-42")
	a.Press("exit 3\r")
	shows(a, "ended")
	s.Remove("sandboxrunners", "default", "webapp")
	shows(a, "matches")
	a.Press("q")
	a.Ends(0)
}

func TestTopFollowsChangesAndSurvivesALostConnection(t *testing.T) {
	w := newWorld(t)
	s := w.withWeb(t)
	a := w.AtTerminal(t, "top")
	shows(a, "webapp")
	s.Put("sandboxes", map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "metadata": map[string]any{"name": "newcomer", "uid": "n"}, "spec": map[string]any{}})
	shows(a, "newcomer")
	s.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			objecttest.Refuse(rw, apierrors.NewServiceUnavailable("the-shard-is-away"))
			return true
		}
		return false
	})
	s.CutWatches()
	shows(a, "the-shard-is-away")
	s.Remove("sandboxes", "default", "newcomer")
	s.Intercept(nil)
	for { // the line is gone once all kinds are watched
		before, grown := a.Screen.Look()
		a.Press(ctrlL)
		<-grown
		now, _ := a.Screen.Look()
		if drawn := now[len(before):]; strings.Contains(drawn, "quit") && !strings.Contains(drawn, "the-shard-is-away") && !strings.Contains(drawn, "newcomer") {
			break
		}
	}
	a.Resize(12, 40)
	shows(a, "webapp")
	a.Press("q")
	a.Ends(0)
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
	a := w.AtTerminal(t, "top")
	shows(a, "webapp")
	shows(a, "sandboxsets") // cannot be listed, and the others are there
	a.Press("/webapp\r")
	a.Press("s")
	shows(a, "denies")
	a.Press("q")
	a.Ends(0)
}

func TestTopGivesTheTerminalBackHoweverItEnds(t *testing.T) {
	for name, end := range map[string]func(a *clitest.AtTerminal){
		"by Ctrl-C":           func(a *clitest.AtTerminal) { a.Press(clitest.CtrlC) },
		"by SIGTERM":          func(a *clitest.AtTerminal) { _ = a.Process.Process.Signal(syscall.SIGTERM) },
		"by SIGINT":           func(a *clitest.AtTerminal) { _ = a.Process.Process.Signal(syscall.SIGINT) },
		"by SIGHUP":           func(a *clitest.AtTerminal) { _ = a.Process.Process.Signal(syscall.SIGHUP) },
		"while one types":     func(a *clitest.AtTerminal) { a.Press("/x" + clitest.CtrlC) },
		"in the help":         func(a *clitest.AtTerminal) { a.Press("?" + clitest.CtrlC) },
		"while a log is read": func(a *clitest.AtTerminal) { a.Press("l" + clitest.CtrlC) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withWeb(t)
			a := w.AtTerminal(t, "top", "-A")
			shows(a, "webapp")
			end(a)
			a.Ends(cli.ExitInterrupted)
			clitest.Await(t, a.Screen, leaves)
		})
	}
}

func TestTopShowsAThousandSandboxes(t *testing.T) {
	w := newWorld(t)
	s := w.withWeb(t)
	for i := range 1000 {
		s.Put("sandboxes", map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "metadata": map[string]any{"name": fmt.Sprintf("sandbox-%04d", i), "creationTimestamp": clitest.DaysAgo(1)},
			"spec": map[string]any{}, "status": map[string]any{"phase": "Ready"},
		})
	}
	a := w.AtTerminal(t, "top")
	shows(a, "1004")
	a.Press("/0999\r")
	shows(a, "sandbox-0999")
	a.Press("q")
	a.Ends(0)
}

func TestTopNeedsATerminal(t *testing.T) {
	w := newWorld(t)
	s := w.WithObjects(t)
	w.Transcript(t, "top.golden", []clitest.Turn{
		{Name: "no terminal", Args: "top"},
		{Name: "an argument", Args: "top sandboxes"},
		{Name: "a kind", Args: "top --resource sandboxes.sandbar.dev"},
		{Name: "a selector that does not parse", Args: "top -l 'env in prod'"},
	})
	if asked := s.Requests(); len(asked) > 0 {
		t.Errorf("it asked the workspace: %v", asked)
	}
	t.Setenv("TERM", "dumb")
	a := w.AtTerminal(t, "top")
	clitest.Await(t, a.Screen, "cannot move its cursor (dumb): use sandbar get KIND")
	a.Ends(cli.ExitUsage)
	if slices.ContainsFunc([]string{"\x1b[?1049h", "\x1b[2J"}, func(s string) bool { return strings.Contains(a.Screen.String(), s) }) {
		t.Error("it draws nevertheless")
	}
}

// Both show the same object with the same words.
func TestTopHasTheCellsOfGet(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	now := time.Now()
	for _, name := range []string{"web", "api"} {
		obj := s.Object("sandboxes", "default", name)
		k := object.Kind{Singular: "sandbox"}
		cells := rowOf(k, obj).Cells(now)
		cells = slices.Delete(cells, 1, 3) // without the namespace and the kind
		cells = cells[:len(cells)-1]       // and without the start
		var want []string
		for _, cell := range objectcmd.InstanceCells(objectcmd.Showing{}, object.Item{Unstructured: obj}, now) {
			want = append(want, cell.(string))
		}
		if !slices.Equal(cells, want) {
			t.Errorf("top shows %q, and get %q", cells, want)
		}
	}
}

func TestTheArgumentsOfAShellLeadToTheSameWorkspace(t *testing.T) {
	s := target{&cli.Target{Kubeconfig: "k", TrustFile: "t"}}
	s.Overrides.CurrentContext, s.Overrides.ClusterInfo.Server = "c", "https://x"
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
