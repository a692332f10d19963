// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/client/devsync"
)

// repository is a git work tree with the directory of a world in it.
type repository struct {
	*world
	top string
}

// newRepository makes dir of the repository what the world syncs.
func newRepository(t *testing.T, dir string, tree files) *repository {
	t.Helper()
	r := &repository{world: newWorld(t), top: t.TempDir()}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(os.Getenv("HOME"), "config"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	r.git("init", "-q")
	write(t, r.top, tree)
	r.dir = filepath.Join(r.top, dir)
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{"-C", r.top, "-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

// counts are the files below the synced directory that git does not ignore, or tracks.
func (r *repository) counts() []string {
	r.t.Helper()
	prefix, err := filepath.Rel(r.top, r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.git("-C", prefix, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	paths := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	slices.Sort(paths)
	return slices.Compact(paths)
}

func paths(tree files) []string {
	var list []string
	for path := range tree {
		list = append(list, path)
	}
	slices.Sort(list)
	return list
}

// Git itself says what is to be sent.
func TestWhatGitIgnoresIsNotSentWhereverItsRulesLie(t *testing.T) {
	for name, c := range map[string]struct {
		dir  string
		tree files
		do   func(*repository)
	}{
		"rules at the top of a monorepo": {"apps/web", files{
			".gitignore": "node_modules/\n/apps/web/secret.json\n*.log\n", "apps/.gitignore": "!keep.log\n", "apps/web/.gitignore": "out\n",
			"apps/web/a": "a", "apps/web/secret.json": "s", "apps/web/node_modules/x": "x", "apps/web/x.log": "l", "apps/web/keep.log": "k",
			"apps/web/out": "o", "apps/web/src/secret.json": "s",
		}, nil},
		"rules of the repository": {"app", files{"app/a": "a", "app/private": "p", "app/d/private": "p", "app/anchored": "x"}, func(r *repository) {
			write(r.t, r.top, files{".git/info/exclude": "private\n/app/anchored\n"})
		}},
		"rules of a person": {".", files{"a": "a", "mine.txt": "m", "yours.txt": "y"}, func(r *repository) {
			write(r.t, os.Getenv("XDG_CONFIG_HOME"), files{"git/ignore": "mine.*\n"})
		}},
		"rules of a person in a file of another name": {"app", files{"app/a": "a", "app/mine": "m"}, func(r *repository) {
			write(r.t, os.Getenv("HOME"), files{".rules": "mine\n", ".rulesLink": "-> .rules", ".gitconfig": "[core]\n\texcludesFile = ~/.rulesLink\n"})
		}},
		"rules that include again what a person ignores": {".", files{".gitignore": "!mine\n", "a": "a", "mine": "m"}, func(r *repository) {
			write(r.t, os.Getenv("XDG_CONFIG_HOME"), files{"git/ignore": "mine\n"})
		}},
		"files that git tracks although a rule names them": {"app", files{
			".gitignore": "dist\n*.log\n", "app/dist/app.js": "x", "app/dist/map": "m", "app/dist/deep/er": "d", "app/x.log": "x", "app/y.log": "y", "app/a": "a",
		}, func(r *repository) {
			r.git("add", "-f", "app/dist/app.js", "app/dist/deep/er", "app/x.log")
		}},
		"a work tree that was added": {"app", files{".gitignore": "*.log\n", "app/a": "a", "app/forced.log": "f"}, func(r *repository) {
			r.git("add", "-f", ".")
			r.git("commit", "-qm", "all")
			added := filepath.Join(r.t.TempDir(), "added")
			r.git("worktree", "add", "-q", added)
			write(r.t, r.top, files{".git/info/exclude": "private\n"})
			r.top, r.dir = added, filepath.Join(added, "app")
			write(r.t, r.dir, files{"private": "p", "new.log": "n", "b": "b"})
		}},
		"a submodule": {"sub", files{"a": "a"}, func(r *repository) {
			other := r.t.TempDir()
			for _, args := range [][]string{{"init", "-q", other}, {"-C", other, "commit", "-q", "--allow-empty", "-m", "none"}, {"-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "sub"}} {
				r.git(args...)
			}
			write(r.t, r.top, files{".gitignore": "outer\n", ".git/modules/sub/info/exclude": "private\n", "sub/private": "p", "sub/b": "b", "sub/outer": "o"})
			r.top = r.dir
		}},
		"names whose case does not count": {"app", files{
			".gitignore": "Build/\n*.LOG\n!Keep.log\n", "app/a": "a", "app/build/x": "x", "app/x.log": "l", "app/KEEP.LOG": "k", "app/.gitignore": "Private\n", "app/private": "p",
		}, func(r *repository) {
			r.git("config", "core.ignoreCase", "true")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t, c.dir, c.tree)
			if c.do != nil {
				c.do(r)
			}
			r.mustSync(nil)
			if diff := cmp.Diff(r.counts(), paths(read(t, r.workspace))); diff != "" {
				t.Errorf("sent (-git +sent):\n%s", diff)
			}
		})
	}
}

// A file that a submodule tracks belongs to its repository, also where a rule above names it. A file that it does not
// track follows those rules as well as its own.
func TestWhatASubmoduleTracksIsSent(t *testing.T) {
	r := newRepository(t, ".", files{"a": "a", ".gitignore": "build\n*.log\n"})
	inner, outer := t.TempDir(), t.TempDir()
	for dir, tree := range map[string]files{inner: {"build/deep": "d"}, outer: {"build/lib.js": "l", "x.log": "x", ".gitignore": "own\n"}} {
		write(t, dir, tree)
		r.git("init", "-q", dir)
		r.git("-C", dir, "add", "-f", ".")
		r.git("-C", dir, "commit", "-qm", "all")
	}
	add := []string{"-c", "protocol.file.allow=always", "submodule", "--quiet", "add"}
	r.git(append([]string{"-C", outer}, append(add, inner, "inner")...)...)
	r.git("-C", outer, "commit", "-qm", "inner")
	r.git(append(add, outer, "libs/outer")...)
	r.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
	write(t, r.dir, files{"build/mine": "m", "libs/outer/own": "o", "libs/outer/build/new": "n", "libs/outer/inner/y.log": "y", "libs/outer/b": "b"})
	write(t, r.dir, files{".git/modules/libs/outer/info/exclude": "private\n", "libs/outer/private": "p"})
	// A repository that is not a submodule: a clone inside of the project.
	r.git("init", "-q", filepath.Join(r.dir, "clone"))
	write(t, r.dir, files{"clone/.git/info/exclude": "secret\n", "clone/secret": "s", "clone/c": "c"})
	r.mustSync(nil)
	want := []string{
		".gitignore", ".gitmodules", "a", "clone/c", "libs/outer/.gitignore", "libs/outer/.gitmodules", "libs/outer/b", "libs/outer/build/lib.js",
		"libs/outer/inner/build/deep", "libs/outer/x.log",
	}
	if diff := cmp.Diff(want, paths(read(t, r.workspace))); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// Somebody who names a directory means it, although git ignores it: dist of a build, or a project below a
// home directory that is a repository with the rule "*".
func TestADirectoryThatIsIgnoredAndNamedIsSent(t *testing.T) {
	r := newRepository(t, "dist", files{".gitignore": "*\n", "dist/a": "a", "dist/.gitignore": "b\n", "dist/b": "b"})
	r.mustSync(nil)
	if diff := cmp.Diff(files{"a": "a", ".gitignore": "b\n"}, read(t, r.workspace)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// A component is a directory of the project that was named, whose rules hold for it, without git too.
func TestRulesOfTheProjectHoldInItsParts(t *testing.T) {
	w := newWorld(t)
	project := w.dir
	write(t, project, files{".gitignore": "*.log\n", ".sandbarignore": "/web/private\n", "web/a": "a", "web/x.log": "x", "web/private": "p"})
	w.dir = filepath.Join(project, "web")
	w.mustSync(func(o *devsync.Options) { o.Project = project })
	if diff := cmp.Diff(files{"a": "a"}, read(t, w.workspace)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// A .sandbarignore is for this program alone, so it holds for what git tracks.
func TestWhatASandbarignoreNamesIsNotSentThoughGitTracksIt(t *testing.T) {
	r := newRepository(t, ".", files{".gitignore": "dist\n", ".sandbarignore": "fixtures\ndist/map\n", "dist/app.js": "x", "dist/map": "m", "fixtures/f": "f", "a": "a"})
	r.git("add", "-f", ".")
	r.mustSync(nil)
	want := files{".gitignore": "dist\n", ".sandbarignore": "fixtures\ndist/map\n", "dist/app.js": "x", "a": "a"}
	if diff := cmp.Diff(want, read(t, r.workspace)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	write(t, r.dir, files{"dist/": "-"})
	r.mustSync(nil)
	if _, ok := read(t, r.workspace)["dist/app.js"]; ok {
		t.Error("the deletion of a tracked file does not arrive when its directory is gone")
	}
}

func TestTemporaryFilesOfEditorsAreNotSentUnlessARuleBringsThemBack(t *testing.T) {
	temporary := files{
		".a.swp": "", ".a.swx": "", "d/.a.js.swo": "", "4913": "", "a~": "", ".a.un~": "", ".#a": "-> me@host.1", "#a#": "", ".goutputstream-ABC123": "",
		"a.js___jb_tmp___": "", "a.js___jb_old___": "", ".a.kate-swp": "", ".~lock.a.odt#": "", ".nfs00000000012345670000abcd": "", ".fuse_hidden0000abcd": "",
	}
	kept := files{"a": "a", ".svgo.svg": "s", "a.swift": "s", "~a": "x", "49130": "x", "a#b": "x", ".nfsrc": "x"}
	w := newWorld(t)
	write(t, w.dir, temporary)
	write(t, w.dir, kept)
	if r := w.mustSync(nil); len(r.Refused) > 0 {
		t.Errorf("refused: %v", r.Refused)
	}
	if diff := cmp.Diff(kept, read(t, w.workspace)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	write(t, w.dir, files{".sandbarignore": "!4913\n!*~\n"})
	w.mustSync(nil)
	got := read(t, w.workspace)
	for _, path := range []string{"4913", "a~", ".a.un~"} {
		if _, ok := got[path]; !ok {
			t.Errorf("%s is not sent", path)
		}
	}
}

// Git refuses a repository of somebody else, and a hook of a repository must not be run to ask it.
func TestGitIsAskedWithoutRunningWhatARepositoryNames(t *testing.T) {
	r := newRepository(t, ".", files{".gitignore": "dist\n", "a": "a", "dist/x": "x"})
	ran := filepath.Join(t.TempDir(), "ran")
	write(t, r.top, files{".git/monitor": "#!/bin/sh\ntouch " + ran + "\n*"})
	if err := os.Chmod(filepath.Join(r.top, ".git/monitor"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("add", "-f", "dist/x")
	r.git("config", "core.fsmonitor", filepath.Join(r.top, ".git/monitor"))
	t.Setenv("GIT_DIR", filepath.Join(t.TempDir(), "elsewhere")) // as in a hook of another repository
	r.mustSync(nil)
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program that core.fsmonitor names was run")
	}
	if got := read(t, r.workspace)["dist/x"]; got != "x" {
		t.Error("a tracked file is not sent while GIT_DIR leads elsewhere")
	}
}

func TestThatGitDoesNotSayWhatItTracksIsTold(t *testing.T) {
	r := newRepository(t, ".", files{"a": "a", ".git/index": "no index"})
	var notes []string
	r.mustSync(func(o *devsync.Options) {
		o.OnEvent = func(e devsync.Event) {
			if e.Type == devsync.EventNote {
				notes = append(notes, e.Reason)
			}
		}
	})
	if len(notes) != 1 || !strings.Contains(notes[0], "git does not say which files it tracks") {
		t.Errorf("the notes are %q", notes)
	}
	if diff := cmp.Diff(files{"a": "a"}, read(t, r.workspace)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// What a rule lets through again travels in both directions at once, also what only the sandbox has.
func TestARuleThatGoesHasBothSidesCompared(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a", ".gitignore": "*.log\n", "here.log": "h"})
	x := w.watch(twoWay)
	write(t, w.workspace, files{"there.log": "t"})
	write(t, w.dir, files{".gitignore": "none\n"})
	x.await(state("there.log", devsync.FileReceived))
	x.alike("after the rule was gone")
}
