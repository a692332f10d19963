// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree is a workspace, or what lies in one: a text is a file, a text that begins
// with "+" an executable one, "->" a symlink, and a name that ends in "/" an empty
// directory.
type tree map[string]string

func (want tree) make(t *testing.T, dir string) {
	t.Helper()
	for name, content := range want {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		target, link := strings.CutPrefix(content, "->")
		content, executable := strings.CutPrefix(content, "+")
		switch {
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(path, 0o755))
		case link:
			must(t, os.Symlink(target, path))
		case executable:
			must(t, os.WriteFile(path, []byte(content), 0o755))
		default:
			must(t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
}

// treeOf reads a directory, without the staging directory, which must be clean.
func treeOf(t *testing.T, dir string) tree {
	t.Helper()
	got := tree{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		must(t, err)
		name, err := filepath.Rel(dir, path)
		must(t, err)
		switch {
		case name == ".":
		case name == StagingName:
			entries, err := os.ReadDir(path)
			must(t, err)
			for _, e := range entries {
				if e.Name() != revisionFile && e.Name() != ignoreFile {
					t.Errorf("%s is left in the staging directory", e.Name())
				}
			}
			return fs.SkipDir
		case d.IsDir():
			if entries, _ := os.ReadDir(path); len(entries) == 0 {
				got[name+"/"] = ""
			}
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			must(t, err)
			got[name] = "->" + target
		case d.Type() == fs.ModeNamedPipe:
			got[name] = "|"
		default:
			content, err := os.ReadFile(path)
			must(t, err)
			info, err := d.Info()
			must(t, err)
			switch info.Mode() {
			case 0o644:
				got[name] = string(content)
			case 0o755:
				got[name] = "+" + string(content)
			default:
				got[name] = fmt.Sprintf("%s %s", info.Mode(), content)
			}
		}
		return nil
	}))
	return got
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string, limits Limits) *Workspace {
	t.Helper()
	w, err := Open(dir, limits)
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

// change is one entry of a batch.
type change struct {
	path, content string
	executable    *bool
	delete        bool
}

// apply runs a batch to its end.
func apply(w *Workspace, changes []change) (Result, error) {
	b, err := w.NewBatch()
	if err != nil {
		return Result{}, err
	}
	defer b.Discard()
	for _, c := range changes {
		if c.delete {
			err = b.Delete(c.path, nil)
		} else {
			err = b.Write(c.path, []byte(c.content), c.executable)
		}
		if err != nil {
			return Result{}, err
		}
	}
	return b.Commit()
}

// limits are the defaults with fewer files and bytes.
func limits(files int, bytes int64) Limits {
	l := DefaultLimits()
	l.Files, l.FileBytes = files, bytes
	return l
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}
