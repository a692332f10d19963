// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// odd is a project with what real ones have.
func odd(t *testing.T) string {
	dir := t.TempDir()
	clitest.Plant(t, dir, map[string]string{
		"app.js": "1", ".env": "A=1", "tls/[a].pem": "1", "out": "-> ../../elsewhere", "two\nlines": "1",
	})
	return dir
}

func TestSyncListsOnceWhatStaysHere(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), odd(t)
	workspace := w.WithRunner(t, "")
	code, stdout, stderr := w.Run(t, "sync", "web", dir)
	wantOut := "refused\tout\tthe symlink leads out of the directory\n" +
		"refused\ttwo\\nlines\tthe name contains a line break: rename it\n" +
		"withheld\t.env\tan environment file may hold secrets; --send-secret '/.env' sends it\n" +
		"withheld\ttls/[a].pem\tthe file may hold a key or a credential; --send-secret '/tls/\\[a].pem' sends it\n"
	wantErr := "app.js applied\nin sync but for 2 refused, 2 withheld (1 file, 1 byte sent)\n" +
		"sandbar: not everything is in sync: 2 paths refused, for the reasons above\n"
	if code != cli.ExitFailure || stdout != wantOut || clitest.Untimed(stderr) != wantErr {
		t.Errorf("exit code %d, stdout\n%s\nstderr\n%s", code, stdout, clitest.Untimed(stderr))
	}
	// What is printed is what sends it.
	for _, name := range []string{"out", "two\nlines"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, _ = w.Run(t, "sync", "web", dir, "--send-secret", "/.env", "--send-secret", `/tls/\[a].pem`)
	if code != 0 || stdout != "" || clitest.ContentOf(workspace, ".env") != "A=1" || clitest.ContentOf(workspace, "tls/[a].pem") != "1" {
		t.Errorf("exit code %d, stdout %q, the sandbox has %v", code, stdout, clitest.TreeText(t, workspace))
	}
}

func TestDevNamesWhatStaysHere(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), odd(t)
	w.WithRunner(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	_, errs, ended := w.Begin(ctx, strings.NewReader(""), "dev", "web", dir, "--no-logs")
	clitest.Await(t, errs, "in sync but for")
	clitest.Put(t, dir, ".gitignore", "x") // has everything looked at again
	clitest.Await(t, errs, ".gitignore applied")
	cancel()
	<-ended
	for _, want := range []string{
		".env withheld: an environment file may hold secrets; --send-secret '/.env' sends it\n",
		"out refused: the symlink leads out of the directory\n",
		`two\nlines refused: the name contains a line break: rename it` + "\n",
	} {
		if strings.Count(clitest.Untimed(errs.String()), want) != 1 {
			t.Errorf("%q is not told once in\n%s", want, errs)
		}
	}
}

func TestADirectoryThatNobodyMeansIsRefusedBeforeAnythingIsCreated(t *testing.T) {
	w := newWorld(t)
	before := maps.Clone(w.Requests())
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	clitest.Plant(t, home, map[string]string{".ssh/id_rsa": "1", "notes": "1"})
	for _, args := range [][]string{{"dev", "web", home, "--create"}, {"sync", "web", home}} {
		code, _, stderr := w.Run(t, args...)
		want := "sandbar: " + home + " is your home directory; all of it would be sent: .ssh, notes. Name the directory of your project, or pass --yes if you mean all of it\n"
		if code != cli.ExitUsage || stderr != want {
			t.Errorf("%s: exit code %d, %s", args[0], code, stderr)
		}
	}
	if !maps.Equal(before, w.Requests()) {
		t.Errorf("the workspace was asked: %v", w.Requests())
	}
	workspace := w.WithRunner(t, "")
	if code, stdout, stderr := w.Run(t, "sync", "web", home, "--yes"); code != 0 || !strings.HasPrefix(stdout, "withheld\t.ssh\t") || clitest.ContentOf(workspace, "notes") != "1" {
		t.Errorf("with --yes: exit code %d, %s%s", code, stdout, stderr)
	}
}

func TestCopyNamesWhatItLeavesOutAndGoesOn(t *testing.T) {
	w, dir := newWorld(t), t.TempDir()
	workspace := w.WithRunner(t, "")
	clitest.Plant(t, dir, map[string]string{"a": "1", "two\nlines": "1", "bad\tdir/x": "1", "z": "1"})
	code, _, stderr := w.Run(t, "cp", dir, "web:in")
	if code != cli.ExitFailure || clitest.ContentOf(workspace, "in/a") != "1" || clitest.ContentOf(workspace, "in/z") != "1" ||
		!strings.Contains(stderr, `two\nlines: the name contains a line break`) || !strings.Contains(stderr, `bad\tdir: the name contains a control character`) {
		t.Errorf("exit code %d, %s; the sandbox has %v", code, stderr, clitest.TreeText(t, workspace))
	}
}
