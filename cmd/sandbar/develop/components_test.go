// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// withComponents makes the world's instance one of a kind with the components api and web, each
// with a real runner, and returns their workspaces.
func (w *world) withComponents(t *testing.T, paths map[string]string) map[string]string {
	t.Helper()
	runners, workspaces := map[string]http.HandlerFunc{}, map[string]string{}
	for name := range paths {
		workspaces[name] = w.WithRunner(t, "while :; do cat say 2>/dev/null && rm say; sleep 0.01; done")
		runners[name] = w.Plane
	}
	w.Plane = func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/clusters/c1/templates") {
			components := map[string]any{}
			for name, path := range paths {
				components[name] = map[string]string{"workspacePath": path}
			}
			_ = json.NewEncoder(rw).Encode(map[string]any{"items": []any{
				map[string]any{"resource": "others", "instanceAPIVersion": "sandbar.dev/v1alpha1"},
				map[string]any{"resource": "apps", "instanceAPIVersion": "sandbar.dev/v1alpha1", "development": components},
			}})
			return
		}
		rest, _ := strings.CutPrefix(r.URL.Path, "/components/")
		name, rest, _ := strings.Cut(rest, "/")
		if runners[name] == nil {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		r.URL.Path = "/" + rest
		runners[name](rw, r)
	}
	return workspaces
}

func TestEachComponentGetsItsPartOfTheProject(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	there := w.withComponents(t, map[string]string{"api": "services/api", "web": "web"})
	clitest.Plant(t, dir, map[string]string{"services/api/a": "api", "web/w": "web", "README": "nobody's"})
	if code, _, stderr := w.Run(t, "sync", "web", dir, "--resource", "apps.sandbar.dev"); code != 0 {
		t.Fatalf("exit code %d, %q", code, stderr)
	}
	if got := []string{clitest.ContentOf(there["api"], "a"), clitest.ContentOf(there["web"], "w"), clitest.ContentOf(there["web"], "README")}; strings.Join(got, ",") != "api,web," {
		t.Errorf("the workspaces have %q", got)
	}
	// A conflict in each, decided by a path of the project in one alone.
	for component, name := range map[string]string{"api": "a", "web": "w"} {
		clitest.Put(t, there[component], name, "there")
	}
	clitest.Plant(t, dir, map[string]string{"services/api/a": "here", "web/w": "here"})
	code, stdout, _ := w.Run(t, "sync", "web", dir, "--resource", "apps.sandbar.dev", "--prefer", "local", "services/api/a")
	if want := "web | conflict\tw\tchanged here and in the sandbox\n"; code != cli.ExitFailure || stdout != want {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	code, stdout, _ = w.Run(t, "sync", "web", dir, "--resource", "apps.sandbar.dev", "--component", "web", "-o", "json")
	var report struct {
		Component string
		devsync.Report
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != cli.ExitFailure || report.Component != "web" || len(report.Conflicts) != 1 {
		t.Errorf("exit code %d, %v: %q", code, err, stdout)
	}
}

func TestDevShowsWhichComponentSays(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	w.withComponents(t, map[string]string{"api": "api", "web": "web", "none": "not-there"})
	clitest.Plant(t, dir, map[string]string{"api/x": "x", "web/x": "x"})
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, ended := w.Begin(ctx, strings.NewReader(""), "dev", "web", dir, "--resource", "apps.sandbar.dev")
	clitest.Await(t, errs, "no directory not-there, so the component none is left alone")
	for _, name := range []string{"api", "web"} {
		clitest.Put(t, filepath.Join(dir, name), "say", "hello from "+name+"\n")
		clitest.Await(t, out, name+" | hello from "+name+"\n")
		clitest.Await(t, errs, name+" | ")
	}
	cancel()
	if code := <-ended; code != cli.ExitInterrupted {
		t.Errorf("dev ended with %d: %s", code, errs)
	}
}

// What a data plane calls a component's directory decides which files leave this machine.
func TestAComponentsDirectoryIsInTheProject(t *testing.T) {
	for _, at := range []string{"../other", "/etc", "a/../../b", ""} {
		w, dir := newWorld(t), t.TempDir()
		w.withComponents(t, map[string]string{"api": at})
		if code, _, stderr := w.Run(t, "sync", "web", dir, "--resource", "apps.sandbar.dev"); code != cli.ExitFailure || !strings.Contains(stderr, "leads out of a project") {
			t.Errorf("%q: exit code %d, %q", at, code, stderr)
		}
	}
	w, dir := newWorld(t), t.TempDir()
	w.withComponents(t, map[string]string{"api": "api"})
	for _, args := range [][]string{{"--component", "other"}, {}} {
		if code, _, stderr := w.Run(t, append([]string{"sync", "web", dir, "--resource", "apps.sandbar.dev"}, args...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
}

func TestLinesOfComponentsDoNotMix(t *testing.T) {
	var b bytes.Buffer
	one, two := prefixed(&b, "one"), prefixed(&b, "two")
	for _, piece := range []struct {
		to   *linePrefix
		text string
	}{{one.(*linePrefix), "ha"}, {two.(*linePrefix), "a\nb\nc"}, {one.(*linePrefix), "lf\n"}, {two.(*linePrefix), strings.Repeat("x", maxHalfLine)}} {
		if n, err := piece.to.Write([]byte(piece.text)); n != len(piece.text) || err != nil {
			t.Errorf("%d %v", n, err)
		}
	}
	if want := "two | a\ntwo | b\none | half\ntwo | c" + strings.Repeat("x", maxHalfLine) + "\n"; b.String() != want {
		t.Errorf("got %.60q", b.String())
	}
}
