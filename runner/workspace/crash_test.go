// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// A tree and a batch that take every kind of operation, paths that are deleted and
// put at once among them.
var (
	crashBefore = tree{
		"replaced": "old", "gone/a": "1", "gone/b": "+2", "link": "->gone", "becomes": "file",
		"dir/x": "x", "moved": "content", "same": "same", "both/inner": "i",
	}
	crashAfter = tree{
		"replaced": "+new", "link": "new", "becomes/a/dir": "new", "made/deep/file": "new", "to": "->made/deep",
		"renamed": "content", "same": "same", "both": "now a file", "empty/": "",
	}
)

func crashBatch(w *Workspace) (Result, error) {
	b, err := w.NewBatch()
	if err != nil {
		return Result{}, err
	}
	defer b.Discard()
	yes := true
	moved, err := b.File(syncwire.Frame{Path: "renamed", Size: 7, Digest: digestOf("content")})
	if err != nil {
		return Result{}, err
	}
	defer moved.Abort()
	err = errors.Join(
		moved.Copy("moved", 0, 7), moved.Close(),
		b.Delete("gone", nil), b.Delete("becomes", nil), b.Delete("both", nil),
		b.Remove("dir/x", nil), b.Remove("dir", &syncwire.Entry{Type: syncwire.Dir}), b.Remove("moved", nil),
		b.Write("replaced", []byte("new"), &yes), b.Write("link", []byte("new"), nil),
		b.Write("becomes/a/dir", []byte("new"), nil), b.Write("made/deep/file", []byte("new"), nil),
		b.Write("both", []byte("now a file"), nil), b.Write("same", []byte("same"), nil),
		b.Symlink("to", "made/deep", nil), b.Dir("empty", nil),
	)
	if err != nil {
		return Result{}, err
	}
	return b.Commit()
}

// crash is what the disk's next step panics with, in place of a KILL: nothing of
// the runner runs after it, no deferred function has an effect on the disk.
var errCrash = errors.New("crash")

// crashAt opens a workspace and runs do, and dies before the step with the number.
// It returns how many steps were begun, and whether it died.
func crashAt(dir string, step int, do func(*Workspace)) (steps int, died bool) {
	dead := false
	defer func() {
		if r := recover(); r != nil {
			if r != errCrash { //nolint:errorlint // the very value
				panic(r)
			}
			died = true
		}
	}()
	w, err := openWith(dir, DefaultLimits(), func(string) {
		if dead || steps == step {
			dead = true
			panic(errCrash)
		}
		steps++
	})
	if err != nil {
		panic(err)
	}
	do(w)
	w.Close()
	return steps, false
}

// settled opens the workspace as the next runner does, and checks that the batch
// happened or did not.
func settled(t *testing.T, dir, when string, before, after tree, revision int64) (happened bool) {
	t.Helper()
	w, err := Open(dir, DefaultLimits())
	must(t, err)
	defer w.Close()
	got := treeOf(t, dir)
	switch {
	case cmp.Equal(got, before) && w.Revision() == revision:
		return false
	case cmp.Equal(got, after) && w.Revision() == revision+1:
		return true
	default:
		t.Fatalf("%s: revision %d, and the tree is neither (-before +got):\n%s\nnor (-after +got):\n%s",
			when, w.Revision(), cmp.Diff(before, got), cmp.Diff(after, got))
		return false
	}
}

func applyCrashBatch(t *testing.T) func(*Workspace) {
	return func(w *Workspace) {
		_, err := crashBatch(w)
		must(t, err)
	}
}

func TestACrashAtAnyStepLeavesTheTreeBeforeOrAfterTheBatch(t *testing.T) {
	var decided int
	for step := 0; ; step++ {
		dir := t.TempDir()
		crashBefore.make(t, dir)
		_, died := crashAt(dir, step, applyCrashBatch(t))
		if settled(t, dir, fmt.Sprintf("step %d", step), crashBefore, crashAfter, 0) {
			decided++
		} else if decided > 0 {
			t.Fatalf("after a crash at step %d the batch is gone, and one at an earlier step kept it", step)
		}
		if !died {
			if step < 40 || decided < 20 {
				t.Errorf("%d steps, of which %d kept the batch: the batch is too simple", step, decided)
			}
			return
		}
	}
}

// The next runner dies too, while it repairs what the first one left, and the one
// after it.
func TestACrashWhileRecoveringIsRecovered(t *testing.T) {
	for first := 0; ; first += 3 + first%4 {
		probe := t.TempDir()
		crashBefore.make(t, probe)
		if _, died := crashAt(probe, first, applyCrashBatch(t)); !died {
			return
		}
		for second := 0; ; second++ {
			dir := t.TempDir()
			crashBefore.make(t, dir)
			crashAt(dir, first, applyCrashBatch(t))
			_, died := crashAt(dir, second, func(*Workspace) {})
			crashAt(dir, second/2, func(*Workspace) {})
			settled(t, dir, fmt.Sprintf("steps %d and %d", first, second), crashBefore, crashAfter, 0)
			if !died {
				break
			}
		}
	}
}

// A batch fails in the middle, because the app puts something in its way, and the
// runner dies while it takes the batch back.
func TestACrashWhileABatchIsTakenBackLeavesTheTreeAsItWas(t *testing.T) {
	for step := 0; ; step++ {
		dir := t.TempDir()
		crashBefore.make(t, dir)
		obstacle := filepath.Join(dir, "renamed")
		_, died := crashAt(dir, step, func(w *Workspace) {
			w.top.before = sabotage(w.top.before, "mkdir", func() { must(t, os.WriteFile(obstacle, []byte("the app's"), 0o644)) })
			_, err := crashBatch(w)
			var refusal *Error
			if !errors.As(err, &refusal) || refusal.Code != CodeConflict {
				t.Errorf("the error is %v, want a conflict", err)
			}
		})
		before, after := crashBefore, crashAfter
		if _, err := os.Stat(obstacle); err == nil {
			before = with(before, "renamed", "the app's")
			after = with(after, "renamed", "the app's")
		}
		settled(t, dir, fmt.Sprintf("step %d", step), before, after, 0)
		if !died {
			return
		}
	}
}

// sabotage runs do before the second mkdir, which is the first one of the tree.
func sabotage(before func(string), at string, do func()) func(string) {
	seen := 0
	return func(step string) {
		if step == at {
			if seen++; seen == 2 {
				do()
			}
		}
		before(step)
	}
}

func with(base tree, name, content string) tree {
	changed := maps.Clone(base)
	changed[name] = content
	return changed
}

// What cannot be taken back is named.
func TestAnUndoThatFailsNamesWhatRemains(t *testing.T) {
	dir := t.TempDir()
	tree{"a": "old"}.make(t, dir)
	puts := 0
	w, err := openWith(dir, DefaultLimits(), func(step string) {
		if step != "link" {
			return
		}
		if puts++; puts == 2 { // "a" has been put
			must(t, os.Remove(filepath.Join(dir, "a")))
			tree{"a/of": "the app"}.make(t, dir)
			must(t, os.Remove(filepath.Join(dir, "b")))
			must(t, os.MkdirAll(filepath.Join(dir, "b"), 0o755))
		}
	})
	must(t, err)
	defer w.Close()
	tree{"b": "old"}.make(t, dir)
	_, err = apply(w, []change{{path: "a", content: "new"}, {path: "b", content: "new"}})
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Code != CodePartiallyApplied {
		t.Fatalf("the error is %v, want code %s", err, CodePartiallyApplied)
	}
	if diff := cmp.Diff([]string{"a"}, refusal.Applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

// Whoever loses power between two steps has on disk what was synced. This checks
// the order: content, journal and stage before the decision, the decision before
// the tree, the tree before the end.
func TestTheDiskIsSyncedInTheRightOrder(t *testing.T) {
	dir := t.TempDir()
	tree{"a": "old", "d/b": "old"}.make(t, dir)
	var steps []string
	w, err := openWith(dir, DefaultLimits(), func(step string) { steps = append(steps, step) })
	must(t, err)
	defer w.Close()
	steps = nil
	_, err = apply(w, []change{{path: "a", content: "new"}})
	must(t, err)
	want := []string{
		"mkdir", "create", // the stage and the content
		"sync file",           // the content
		"create", "sync file", // the journal
		"sync directory", // the names of both
		"rename",         // is there an old decision?
		"rename",         // the decision
		"sync directory", // and it is on disk
		"link", "rename", // the tree
		"create", "sync file", "rename", // the revision
		"sync directory", "sync directory", // the tree and the revision
		"rename", // it is over
	}
	if diff := cmp.Diff(want, steps[:min(len(want), len(steps))]); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

const (
	crashDirVariable  = "SANDBAR_TEST_CRASH_DIR"
	crashStepVariable = "SANDBAR_TEST_CRASH_STEP"
)

// TestProcessThatIsKilled is the child of the next test, and nothing by itself.
func TestProcessThatIsKilled(t *testing.T) {
	dir := os.Getenv(crashDirVariable)
	if dir == "" {
		t.Skip("runs as a child only")
	}
	step, err := strconv.Atoi(os.Getenv(crashStepVariable))
	must(t, err)
	w, err := openWith(dir, DefaultLimits(), func(string) {
		if step--; step < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	must(t, err)
	_, err = crashBatch(w)
	must(t, err)
}

func TestAKilledProcessLeavesTheTreeBeforeOrAfterTheBatch(t *testing.T) {
	for step := 0; ; step += 4 {
		dir := t.TempDir()
		crashBefore.make(t, dir)
		child := exec.Command(os.Args[0], "-test.run=^TestProcessThatIsKilled$")
		child.Env = append(os.Environ(), crashDirVariable+"="+dir, crashStepVariable+"="+strconv.Itoa(step))
		out, err := child.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
			t.Fatalf("the child ended with %v: %s", err, out)
		}
		settled(t, dir, fmt.Sprintf("step %d", step), crashBefore, crashAfter, 0)
		if err == nil {
			return
		}
	}
}

func TestAForgedJournalMovesNothingOutside(t *testing.T) {
	outside := t.TempDir()
	tree{"victim": "safe"}.make(t, outside)
	for name, journal := range map[string]string{
		"a path that leads up":      `{"version":1,"revision":5,"ops":[{"kind":1,"path":"../victim","n":0}]}`,
		"an absolute path":          `{"version":1,"revision":5,"ops":[{"kind":4,"path":"` + outside + `/victim","n":0,"had":true}]}`,
		"a path through a symlink":  `{"version":1,"revision":5,"ops":[{"kind":4,"path":"out/victim","n":0,"had":true}]}`,
		"the staging directory":     `{"version":1,"revision":5,"ops":[{"kind":1,"path":".sandbar","n":0}]}`,
		"a negative number":         `{"version":1,"revision":5,"ops":[{"kind":4,"path":"a","n":-1}]}`,
		"no JSON":                   `journal`,
		"an operation that is none": `{"version":1,"revision":5,"ops":[{"kind":9,"path":"a","n":0}]}`,
	} {
		for _, stage := range []string{commitName, undoName} {
			t.Run(name+" to "+stage, func(t *testing.T) {
				dir := t.TempDir()
				before := tree{"a": "1", "out": "->" + outside}
				before.make(t, dir)
				tree{"new-0": "evil", "old-0": "evil", journalFile: journal}.make(t, filepath.Join(dir, StagingName, stage))
				open(t, dir, DefaultLimits())
				if diff := cmp.Diff(before, treeOf(t, dir)); diff != "" {
					t.Errorf("tree (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tree{"victim": "safe"}, treeOf(t, outside)); diff != "" {
					t.Errorf("outside (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func FuzzDecodeJournal(f *testing.F) {
	f.Add([]byte(`{"version":1,"revision":5,"ops":[{"kind":4,"path":"a/b","n":0,"had":true}]}`))
	f.Add([]byte(`{"version":1,"ops":[{"kind":1,"path":"../x","n":0}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		j, err := decodeJournal(text)
		if err != nil {
			return
		}
		for _, o := range j.Ops {
			if strings.HasPrefix(o.Path, "/") || slices.Contains(strings.Split(o.Path, "/"), "..") || o.N < 0 {
				t.Errorf("the operation %+v was taken", o)
			}
		}
	})
}
