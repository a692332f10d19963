// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// What a person names is followed, as scp and kubectl cp do; what a copied tree has is not. With a runner, which follows
// nothing, it is as in TestCopyToAPodReplacesNoDirectoryByAFileAndNoSymlinkByADirectory.
func TestCopyToARunnerFollowsTheSymlinksOfThePathAndNoOthers(t *testing.T) {
	for name, c := range map[string]struct {
		copied  string
		at      string
		refusal string
		want    map[string]string // beside what is there
	}{
		"a file below a symlink":              {copied: "p/a", at: "current/sub/b", want: map[string]string{"releases/1/sub/": "", "releases/1/sub/b": "new"}},
		"a directory below a symlink":         {copied: "p", at: "current/p", want: map[string]string{"releases/1/p/": "", "releases/1/p/a": "new"}},
		"into a symlink, named as one":        {copied: "p/a", at: "current/", want: map[string]string{"releases/1/a": "new"}},
		"by way of two":                       {copied: "p/a", at: "there/alias/a", want: map[string]string{"releases/1/a": "new"}},
		"a symlink that steps up":             {copied: "p/a", at: "there/sub/b", want: map[string]string{"releases/b": "new"}},
		"a directory with a dot":              {copied: "p/a", at: "dotted/b", want: map[string]string{".hidden/b": "new"}},
		"the symlink itself, by a directory":  {copied: "p", at: "current", refusal: "a file or a symlink is there"},
		"the symlink itself, by a file":       {copied: "p/a", at: "current", want: map[string]string{"current": "new"}},
		"a symlink of the tree":               {copied: "tree", at: "there", refusal: "a file or a symlink is there"},
		"a symlink of the tree, behind one":   {copied: "tree", at: "way/there", refusal: "a file or a symlink is there"},
		"a file below a file":                 {copied: "p/a", at: "file/x/y", refusal: "a directory of the path is a symlink or a file"},
		"below a symlink to a file":           {copied: "p/a", at: "tofile/x", refusal: "tofile: a directory of the path is a symlink or a file"},
		"below a symlink to nothing":          {copied: "p/a", at: "nothing/x", refusal: "nothing: a directory of the path is a symlink or a file"},
		"below a symlink that leads out":      {copied: "p/a", at: "out/x", refusal: "../outside leads out of the sandbox's files"},
		"below one that leads out and back":   {copied: "p/a", at: "back/x", refusal: "leads out of the sandbox's files"},
		"below a symlink to an absolute path": {copied: "p/a", at: "abs/x", refusal: "abs is a symlink to /etc, an absolute path"},
		"below symlinks in a circle":          {copied: "p/a", at: "round/x", refusal: "one symlink too many"},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir, top := newWorld(t), t.TempDir(), t.TempDir()
			workspace := w.WithRunner(t, "")
			clitest.Plant(t, top, map[string]string{"canary": "alive"})
			clitest.Plant(t, dir, map[string]string{"p/a": "new", "tree/sub/x": "new"})
			clitest.Plant(t, workspace, map[string]string{
				"releases/1/old": "old", "current": "-> releases/1", "file": "old", "nothing": "-> releases/2", "tofile": "-> file",
				"there/sub": "-> ../releases", "there/alias": "-> .././current", "there/x": "old", "way": "-> .", ".hidden/": "", "dotted": "-> ./.hidden/",
				"out": "-> ../outside", "back": "-> ../" + filepath.Base(workspace) + "/releases", "abs": "-> /etc", "round": "-> round2", "round2": "-> round",
			})
			want := clitest.TreeText(t, workspace)
			code, _, stderr := w.Run(t, "cp", filepath.Join(dir, c.copied), "web:"+c.at)
			if code == 0 != (c.refusal == "") || !strings.Contains(stderr, c.refusal) {
				t.Errorf("exit code %d, %q", code, stderr)
			}
			maps.Copy(want, c.want)
			if diff := cmp.Diff(want, clitest.TreeText(t, workspace)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCopyFromARunnerFollowsTheSymlinksOfThePath(t *testing.T) {
	w, dir := newWorld(t), t.TempDir()
	workspace := w.WithRunner(t, "")
	clitest.Plant(t, workspace, map[string]string{"releases/1/d/x": "x", "releases/1/d/out": "-> ../../../../secret", "current": "-> releases/1", "abs": "-> /etc"})
	for from, to := range map[string]string{"web:current/d/x": "file", "web:current/d": "tree"} {
		code, _, stderr := w.Run(t, "cp", from, filepath.Join(dir, to))
		if (code == 0) != (to == "file") || to == "tree" && !strings.Contains(stderr, "left out") {
			t.Errorf("%s: exit code %d, %q", from, code, stderr)
		}
	}
	if diff := cmp.Diff(map[string]string{"file": "x", "tree/": "", "tree/x": "x"}, clitest.TreeText(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if code, _, stderr := w.Run(t, "cp", "web:abs/passwd", dir); code != cli.ExitFailure || !strings.Contains(stderr, "abs is a symlink to /etc, an absolute path") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestCopyFromAPodFollowsTheSymlinksOfThePath(t *testing.T) {
	for image, bin := range map[string]string{"GNU tar": clitest.Programs(t, "tar"), "busybox tar": busybox(t, "tar"), "no tar": clitest.Programs(t, "sh", "cat", "wc")} {
		w, there, dir := newWorld(t), t.TempDir(), t.TempDir()
		w.Pod(t, there, bin)
		clitest.Plant(t, there, map[string]string{"releases/1/d/x": "x", "current": "-> releases/1"})
		if code, _, stderr := w.Run(t, "cp", "web:current/d/x", filepath.Join(dir, "file")); code != 0 || clitest.ContentOf(dir, "file") != "x" {
			t.Errorf("%s: exit code %d, %q", image, code, stderr)
		}
	}
}

// What the app does between the look and the write cannot lead the copy anywhere: the runner follows nothing.
func TestASymlinkThatComesBehindTheLookIsNotFollowed(t *testing.T) {
	w, dir := newWorld(t), t.TempDir()
	workspace := w.WithRunner(t, "")
	clitest.Plant(t, dir, map[string]string{"a": "new"})
	clitest.Plant(t, workspace, map[string]string{"releases/1/old": "old", "current": "-> releases/1", "elsewhere/": ""})
	serve := w.Plane
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if err := errors.Join(os.RemoveAll(filepath.Join(workspace, "releases/1")), os.Symlink("../elsewhere", filepath.Join(workspace, "releases/1"))); err != nil {
				t.Error(err)
			}
		}
		serve(rw, r)
	})
	code, _, stderr := w.Run(t, "cp", filepath.Join(dir, "a"), "web:current/a")
	if code != cli.ExitFailure || !strings.Contains(stderr, "a directory of the path is a symlink or a file") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if got := clitest.TreeText(t, filepath.Join(workspace, "elsewhere")); len(got) > 0 {
		t.Errorf("it was written: %v", got)
	}
}
