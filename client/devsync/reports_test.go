// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Reports of other sync tools (docs/compatibility.md).

// What version control keeps beside the files is one side's own: its hooks and configuration are programs.
func TestRepositoriesOfEveryKindStayOnTheirSide(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "a", ".hg/dirstate": "x", "sub/.svn/wc.db": "x", ".jj/repo/store": "x", ".bzr/branch": "x", "_darcs/inventory": "x", ".hgignore": "h"})
	w.mustSync(twoWay)
	if diff := cmp.Diff(files{"a": "a", ".hgignore": "h"}, read(t, w.workspace)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
}

// A directory that became a symlink to another one was deleted there too, in other tools, or never arrived.
func TestWhatChangesItsKindOrTheCaseOfItsNameArrives(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"A/a": "a", "B/a": "a", "B/b": "b", "test.txt": "t", "file": "f", "link": "-> file"})
	w.mustSync(twoWay)
	at := func(name string) string { return filepath.Join(w.dir, name) }
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"a directory became a symlink", func() error { return errors.Join(os.RemoveAll(at("A")), os.Symlink("B", at("A"))) }},
		{"the symlink became a directory", func() error {
			return errors.Join(os.Remove(at("A")), os.Mkdir(at("A"), 0o755), os.WriteFile(at("A/new"), nil, 0o600))
		}},
		{"a name changed its case", func() error { return os.Rename(at("test.txt"), at("Test.txt")) }},
		{"a file and a symlink changed places", func() error {
			return errors.Join(os.Rename(at("file"), at("x")), os.Remove(at("link")), os.Symlink("link", at("file")), os.Rename(at("x"), at("link")))
		}},
		{"a directory became a file", func() error { return errors.Join(os.RemoveAll(at("B")), os.WriteFile(at("B"), nil, 0o600)) }},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		w.mustSync(twoWay)
		if diff := cmp.Diff(read(t, w.dir), read(t, w.workspace)); diff != "" {
			t.Errorf("after %s (-here +there):\n%s", step.what, diff)
		}
	}
}
