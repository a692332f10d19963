// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// batches are the cases of TestBatch.
var batches = map[string]struct {
	before  tree
	changes []change
	result  Result
	after   tree
	code    Code
}{
	"a new file gets its directories": {
		changes: []change{{path: "a/b/c.txt", content: "hi"}},
		result:  Result{Revision: 1, Changed: []string{"a/b/c.txt"}},
		after:   tree{"a/b/c.txt": "hi"},
	},
	"binary content and empty files arrive as they are": {
		changes: []change{{path: "bin", content: "\x00\xff\r\n"}, {path: "empty"}},
		result:  Result{Revision: 1, Changed: []string{"bin", "empty"}},
		after:   tree{"bin": "\x00\xff\r\n", "empty": ""},
	},
	"a file that is the same is left alone": {
		before:  tree{"a": "same", "b": "old"},
		changes: []change{{path: "a", content: "same"}, {path: "b", content: "new"}},
		result:  Result{Revision: 1, Changed: []string{"b"}, Unchanged: 1},
		after:   tree{"a": "same", "b": "new"},
	},
	"a batch that changes nothing is no revision": {
		before:  tree{"a": "same"},
		changes: []change{{path: "a", content: "same"}, {path: "gone", delete: true}},
		result:  Result{Unchanged: 1},
		after:   tree{"a": "same"},
	},
	"content of the same length but other bytes is a change": {
		before:  tree{"a": "abc"},
		changes: []change{{path: "a", content: "abd"}},
		result:  Result{Revision: 1, Changed: []string{"a"}},
		after:   tree{"a": "abd"},
	},
	"the executable bit is kept when nothing is said of it": {
		before:  tree{"run.sh": "+old"},
		changes: []change{{path: "run.sh", content: "new"}},
		result:  Result{Revision: 1, Changed: []string{"run.sh"}},
		after:   tree{"run.sh": "+new"},
	},
	"the executable bit alone is a change": {
		before: tree{"on": "x", "off": "+x", "is": "+x"},
		changes: []change{
			{path: "on", content: "x", executable: new(true)},
			{path: "off", content: "x", executable: new(false)},
			{path: "is", content: "x", executable: new(true)},
		},
		result: Result{Revision: 1, Changed: []string{"on", "off"}, Unchanged: 1},
		after:  tree{"on": "+x", "off": "x", "is": "+x"},
	},
	"a tree is deleted whole, and what it links to is not": {
		before:  tree{"d/a": "1", "d/e/f": "2", "d/link": "->../keep", "keep/x": "3"},
		changes: []change{{path: "d", delete: true}},
		result:  Result{Revision: 1, Deleted: []string{"d"}},
		after:   tree{"keep/x": "3"},
	},
	"a symlink is deleted itself": {
		before:  tree{"link": "->keep", "keep/x": "3"},
		changes: []change{{path: "link", delete: true}},
		result:  Result{Revision: 1, Deleted: []string{"link"}},
		after:   tree{"keep/x": "3"},
	},
	"deletes come first, so a directory can become a file": {
		before:  tree{"d/a": "1"},
		changes: []change{{path: "d", content: "file"}, {path: "d", delete: true}},
		result:  Result{Revision: 1, Changed: []string{"d"}, Deleted: []string{"d"}},
		after:   tree{"d": "file"},
	},
	"and a file a directory": {
		before:  tree{"d": "file"},
		changes: []change{{path: "d/a", content: "1"}, {path: "d", delete: true}},
		result:  Result{Revision: 1, Changed: []string{"d/a"}, Deleted: []string{"d"}},
		after:   tree{"d/a": "1"},
	},
	"and a symlink a directory": {
		before:  tree{"d": "->keep", "keep/a": "same"},
		changes: []change{{path: "d/a", content: "same"}, {path: "d", delete: true}},
		result:  Result{Revision: 1, Changed: []string{"d/a"}, Deleted: []string{"d"}},
		after:   tree{"d/a": "same", "keep/a": "same"},
	},
	"a symlink in the file's place is replaced and not followed": {
		before:  tree{"link": "->keep", "keep": "safe"},
		changes: []change{{path: "link", content: "safe"}},
		result:  Result{Revision: 1, Changed: []string{"link"}},
		after:   tree{"link": "safe", "keep": "safe"},
	},
	"a symlink on the way is refused even inside the workspace": {
		before:  tree{"link": "->real", "real/a": "1"},
		changes: []change{{path: "b", content: "2"}, {path: "link/a", content: "2"}},
		after:   tree{"link": "->real", "real/a": "1"},
		code:    CodeConflict,
	},
	"a symlink on the way is refused for a delete": {
		before:  tree{"link": "->real", "real/a": "1"},
		changes: []change{{path: "b", content: "2"}, {path: "link/a", delete: true}},
		after:   tree{"link": "->real", "real/a": "1"},
		code:    CodeConflict,
	},
	"a file on the way is refused": {
		before:  tree{"f": "1"},
		changes: []change{{path: "b", content: "2"}, {path: "f/a", content: "2"}},
		after:   tree{"f": "1"},
		code:    CodeConflict,
	},
	"a directory in the file's place is refused": {
		before:  tree{"d/a": "1"},
		changes: []change{{path: "b", content: "2"}, {path: "d", content: "2"}},
		after:   tree{"d/a": "1"},
		code:    CodeConflict,
	},
	"a file twice is refused": {
		changes: []change{{path: "a", content: "1"}, {path: "a", content: "2"}},
		after:   tree{},
		code:    CodeInvalidBatch,
	},
	"a file that another needs as a directory is refused": {
		changes: []change{{path: "a/b", content: "1"}, {path: "a", content: "2"}},
		after:   tree{},
		code:    CodeInvalidBatch,
	},
	"one bad path refuses the whole batch": {
		changes: []change{{path: "a", content: "1"}, {path: "../b", content: "2"}},
		after:   tree{},
		code:    CodeInvalidPath,
	},
	"the staging directory is refused": {
		changes: []change{{path: ".sandbar", delete: true}},
		after:   tree{},
		code:    CodeInvalidPath,
	},
	"a file above the limit is refused": {
		changes: []change{{path: "a", content: strings.Repeat("x", 101)}},
		after:   tree{},
		code:    CodeFileTooLarge,
	},
	"a file at the limit is taken": {
		changes: []change{{path: "a", content: strings.Repeat("x", 100)}},
		result:  Result{Revision: 1, Changed: []string{"a"}},
		after:   tree{"a": strings.Repeat("x", 100)},
	},
	"more entries than the limit are refused": {
		changes: []change{{path: "a"}, {path: "b"}, {path: "c", delete: true}, {path: "d", delete: true}},
		after:   tree{},
		code:    CodeTooManyFiles,
	},
}

func TestBatch(t *testing.T) {
	for name, test := range batches {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.before.make(t, dir)
			w := open(t, dir, limits(3, 100))
			result, err := apply(w, test.changes)
			var refusal *Error
			if errors.As(err, &refusal); err != nil && (refusal == nil || refusal.Code != test.code) || (err == nil) != (test.code == "") {
				t.Errorf("the error is %v, want code %q", err, test.code)
			}
			if diff := cmp.Diff(test.result, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.after, treeOf(t, dir)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
			if w.Revision() != test.result.Revision {
				t.Errorf("the revision is %d, want %d", w.Revision(), test.result.Revision)
			}
		})
	}
}

func TestLimitErrorsNameTheLimit(t *testing.T) {
	w := open(t, t.TempDir(), limits(1, 2))
	for want, changes := range map[string][]change{
		"2 bytes a file":           {{path: "a", content: "123"}},
		"limit of 1 files":         {{path: "a"}, {path: "b"}},
		"longer than 1024 bytes":   {{path: strings.Repeat("a", 1025)}},
		"more than 64 names deep":  {{path: strings.Repeat("a/", 64) + "b"}},
		"is longer than 255 bytes": {{path: strings.Repeat("a", 256)}},
	} {
		if _, err := apply(w, changes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want it to contain %q", err, want)
		}
	}
}

func TestWritingReplacesAHardLinkAndNotWhatItLinksTo(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("safe"), 0o644))
	must(t, os.Link(outside, filepath.Join(dir, "a")))
	_, err := apply(open(t, dir, DefaultLimits()), []change{{path: "a", content: "evil"}})
	must(t, err)
	if got, _ := os.ReadFile(outside); string(got) != "safe" {
		t.Errorf("the file outside has %q now", got)
	}
}

func TestSetIDBitsAreDropped(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("old"), 0o755))
	must(t, os.Chmod(filepath.Join(dir, "a"), 0o755|os.ModeSetuid))
	_, err := apply(open(t, dir, DefaultLimits()), []change{{path: "a", content: "new"}})
	must(t, err)
	if diff := cmp.Diff(tree{"a": "+new"}, treeOf(t, dir)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

// Opening a FIFO for reading waits for a writer, forever if there is none.
func TestFIFOsDoNotBlock(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(dir, "file"), 0o644))
	must(t, unix.Mkfifo(filepath.Join(dir, "parent"), 0o644))
	w := open(t, dir, DefaultLimits())
	if _, err := apply(w, []change{{path: "parent/a", content: "x"}}); err == nil {
		t.Error("a FIFO was taken for a directory")
	}
	_, err := apply(w, []change{{path: "file", content: "x"}})
	must(t, err)
	if diff := cmp.Diff(tree{"file": "x", "parent": "|"}, treeOf(t, dir)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestStagingDirectoryMayVanishOrBeReplaced(t *testing.T) {
	outside := t.TempDir()
	for name, sabotage := range map[string]func(path string) error{
		"deleted": func(string) error { return nil },
		"a file":  func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"a link":  func(path string) error { return os.Symlink(outside, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w := open(t, dir, DefaultLimits())
			must(t, os.RemoveAll(filepath.Join(dir, StagingName)))
			must(t, sabotage(filepath.Join(dir, StagingName)))
			_, err := apply(w, []change{{path: "a", content: "x"}})
			must(t, err)
			if diff := cmp.Diff(tree{"a": "x"}, treeOf(t, dir)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tree{}, treeOf(t, outside)); diff != "" {
				t.Errorf("outside (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpenRemovesWhatACrashLeftAndKeepsTheRevision(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, DefaultLimits())
	for i := range 3 {
		_, err := apply(w, []change{{path: "a", content: strconv.Itoa(i)}})
		must(t, err)
	}
	b, err := w.NewBatch() // a batch that its runner does not live to discard
	must(t, err)
	must(t, b.Write("b", []byte("staged"), nil))

	// What a package manager has downloaded is no leftover.
	tree{StagingName + "/" + CacheName + "/npm/index": "cached"}.make(t, dir)

	if again := open(t, dir, DefaultLimits()); again.Revision() != 3 {
		t.Errorf("the revision is %d, want 3", again.Revision())
	}
	if cached, err := os.ReadFile(filepath.Join(dir, StagingName, CacheName, "npm", "index")); err != nil || string(cached) != "cached" {
		t.Errorf("the cache has %q, %v", cached, err)
	}
	must(t, os.RemoveAll(filepath.Join(dir, StagingName, CacheName)))
	if diff := cmp.Diff(tree{"a": "2"}, treeOf(t, dir)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	b.Discard()
}

func TestRevisionFileIsNotTrusted(t *testing.T) {
	for name, content := range map[string]string{
		"text":      "many",
		"negative":  "-4",
		"too great": "9223372036854775807",
		"long":      strings.Repeat("1", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tree{StagingName + "/" + revisionFile: content}.make(t, dir)
			if got := open(t, dir, DefaultLimits()).Revision(); got != 0 {
				t.Errorf("the revision is %d, want 0", got)
			}
		})
	}
}

func TestTreesOfAnyDepthAreDeleted(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, DefaultLimits())
	d, err := openTop(dir)
	must(t, err)
	for range 10 * removeDepth {
		sub, _, err := d.openOrMakeDir("deep", 0o755)
		must(t, err)
		must(t, sub.save("file", nil))
		d.close()
		d = sub
	}
	d.close()
	_, err = apply(w, []change{{path: "deep", delete: true}})
	must(t, err)
	if diff := cmp.Diff(tree{}, treeOf(t, dir)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestLargeFilesAreComparedWhole(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, DefaultLimits())
	content := bytes.Repeat([]byte("x"), 3*hashChunk+7)
	for i, last := range []byte{'x', 'x', 'y'} {
		content[len(content)-1] = last
		result, err := apply(w, []change{{path: "a", content: string(content)}})
		must(t, err)
		if got, want := len(result.Changed), []int{1, 0, 1}[i]; got != want {
			t.Errorf("write %d changed %d files, want %d", i, got, want)
		}
	}
}

func BenchmarkCheckout3000(b *testing.B) {
	dir := b.TempDir()
	w, err := Open(dir, DefaultLimits())
	must(b, err)
	defer w.Close()
	n := 0
	for b.Loop() {
		n++
		changes := make([]change, 3000)
		for i := range changes {
			changes[i] = change{
				path:    fmt.Sprintf("src/%d/%d/file-%d.ts", i%10, i%100, i),
				content: fmt.Sprintf("%d %s", n, strings.Repeat("x", 4000)),
			}
		}
		_, err := apply(w, changes)
		must(b, err)
	}
}

// One changed file in a tree of 5,000, synced to disk.
func BenchmarkEditIn5000(b *testing.B) {
	w, err := Open(b.TempDir(), DefaultLimits())
	must(b, err)
	defer w.Close()
	changes := make([]change, 5000)
	for i := range changes {
		changes[i] = change{path: fmt.Sprintf("src/%d/file-%d.ts", i%100, i), content: strings.Repeat("x", 2000)}
	}
	_, err = apply(w, changes)
	must(b, err)
	n := 0
	for b.Loop() {
		n++
		_, err := apply(w, []change{{path: "src/7/file-7.ts", content: fmt.Sprintf("%d %s", n, strings.Repeat("x", 2000))}})
		must(b, err)
	}
}
