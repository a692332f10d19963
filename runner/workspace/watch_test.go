// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// watched is a workspace with a watch, and what a client that listens knows of it.
type watched struct {
	t       *testing.T
	dir     string
	w       *Workspace
	watch   *Watch
	known   map[string]syncwire.Entry
	resyncs int
	marks   int
}

func watchTree(t *testing.T, before tree, exclude ...string) *watched {
	t.Helper()
	dir := t.TempDir()
	before.make(t, dir)
	x := &watched{t: t, dir: dir, w: open(t, dir, DefaultLimits())}
	var err error
	x.watch, err = x.w.Watch(exclude)
	must(t, err)
	t.Cleanup(x.watch.Close)
	x.known = x.list(exclude...)
	return x
}

// list is what the workspace has, by path.
func (x *watched) list(exclude ...string) map[string]syncwire.Entry {
	x.t.Helper()
	l, err := x.w.List(exclude)
	must(x.t, err)
	defer l.Close()
	entries := map[string]syncwire.Entry{}
	for d := json.NewDecoder(l.Lines()); len(entries) < l.Head.Entries; {
		var e syncwire.Entry
		must(x.t, d.Decode(&e))
		e.ModTime = nil
		entries[e.Path] = e
	}
	return entries
}

// hear takes in all that has happened so far, as a client does, and returns it.
func (x *watched) hear() (changes []syncwire.Change) {
	x.t.Helper()
	x.marks++
	// The kernel tells in order: when this one is heard, all before it is.
	mark := fmt.Sprintf("mark-%d", x.marks)
	must(x.t, os.Mkdir(filepath.Join(x.dir, mark), 0o755))
	for {
		told, err := x.watch.Next(x.t.Context())
		must(x.t, err)
		for _, c := range told {
			if c.Resync != "" {
				x.resyncs++
				x.known = x.list(x.watch.exclude...)
			} else if c.Type == syncwire.None {
				maps.DeleteFunc(x.known, func(path string, _ syncwire.Entry) bool {
					return path == c.Path || strings.HasPrefix(path, c.Path+"/")
				})
			} else {
				x.known[c.Path] = *c.Entry
			}
			if c.Entry == nil || !strings.HasPrefix(c.Path, "mark-") {
				changes = append(changes, c)
			}
		}
		if _, heard := x.known[mark]; heard {
			return changes
		}
	}
}

func TestAWatchTellsWhatLiesAtThePathsNow(t *testing.T) {
	file := func(path, content string) syncwire.Entry {
		return syncwire.Entry{Path: path, Type: syncwire.File, Size: int64(len(content)), Digest: digestOf(content)}
	}
	none := func(path string) syncwire.Entry { return syncwire.Entry{Path: path, Type: syncwire.None} }
	dir := func(path string) syncwire.Entry { return syncwire.Entry{Path: path, Type: syncwire.Dir} }
	in := func(x *watched, path string) string { return filepath.Join(x.dir, path) }
	for name, test := range map[string]struct {
		do   func(t *testing.T, x *watched)
		want []syncwire.Entry
	}{
		"a file is written": {func(t *testing.T, x *watched) {
			must(t, os.WriteFile(in(x, "sub/new"), []byte("hi"), 0o644))
		}, []syncwire.Entry{file("sub/new", "hi")}},
		"a file is saved as editors do": {func(t *testing.T, x *watched) {
			must(t, os.WriteFile(in(x, "a~"), []byte("hi"), 0o644))
			must(t, os.Rename(in(x, "a~"), in(x, "a")))
		}, []syncwire.Entry{file("a", "hi"), none("a~")}},
		"a file grows and stays open": {func(t *testing.T, x *watched) {
			f, err := os.OpenFile(in(x, "a"), os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			t.Cleanup(func() { _ = f.Close() })
			_, err = f.WriteString("more")
			must(t, err)
		}, []syncwire.Entry{file("a", "oldmore")}},
		"a file is made executable": {func(t *testing.T, x *watched) {
			must(t, os.Chmod(in(x, "a"), 0o755))
		}, []syncwire.Entry{{Path: "a", Type: syncwire.File, Size: 3, Digest: digestOf("old"), Executable: true}}},
		"a file goes": {func(t *testing.T, x *watched) {
			must(t, os.Remove(in(x, "a")))
		}, []syncwire.Entry{none("a")}},
		"a symlink and a FIFO come": {func(t *testing.T, x *watched) {
			must(t, os.Symlink("a", in(x, "link")))
			must(t, unix.Mkfifo(in(x, "pipe"), 0o644))
		}, []syncwire.Entry{{Path: "link", Type: syncwire.Symlink, Target: "a"}, {Path: "pipe", Type: syncwire.Other}}},
		"a tree comes at once": {func(t *testing.T, x *watched) {
			elsewhere := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(elsewhere, "new/deep"), 0o755))
			must(t, os.WriteFile(filepath.Join(elsewhere, "new/deep/f"), []byte("hi"), 0o644))
			must(t, os.Rename(filepath.Join(elsewhere, "new"), in(x, "new")))
		}, []syncwire.Entry{dir("new"), dir("new/deep"), file("new/deep/f", "hi")}},
		"a tree moves, and goes on under its new name": {func(t *testing.T, x *watched) {
			must(t, os.Rename(in(x, "sub"), in(x, "moved")))
			must(t, os.WriteFile(in(x, "moved/new"), []byte("hi"), 0o644))
		}, []syncwire.Entry{dir("moved"), file("moved/b", "old"), file("moved/new", "hi"), none("sub")}},
		"a tree goes": {func(t *testing.T, x *watched) {
			must(t, os.RemoveAll(in(x, "sub")))
		}, []syncwire.Entry{none("sub"), none("sub/b")}},
		"a batch is applied": {func(t *testing.T, x *watched) {
			_, err := apply(x.w, []change{{path: "a", content: "batch"}, {path: "sub/b", delete: true}})
			must(t, err)
		}, []syncwire.Entry{file("a", "batch"), none("sub/b")}},
		"what is excluded, and the runner's own directory, say nothing": {func(t *testing.T, x *watched) {
			must(t, os.MkdirAll(in(x, "sub/node_modules/x"), 0o755))
			must(t, os.WriteFile(in(x, "sub/node_modules/x/f"), nil, 0o644))
			must(t, os.WriteFile(in(x, StagingName+"/f"), nil, 0o644))
		}, nil},
		"names that cannot be synced say nothing": {func(t *testing.T, x *watched) {
			must(t, os.WriteFile(in(x, "new\nline"), nil, 0o644))
			must(t, os.Mkdir(in(x, "\xff"), 0o755))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := watchTree(t, tree{"a": "old", "sub/b": "old"}, "node_modules")
			test.do(t, x)
			var got []syncwire.Entry
			last := map[string]syncwire.Entry{}
			for _, c := range x.hear() {
				if c.Resync != "" {
					t.Fatalf("a resync: %s", c.Resync)
				}
				// A path may be told more than once; the last word counts.
				last[c.Path] = *c.Entry
			}
			for _, e := range last {
				got = append(got, e)
			}
			byPath := func(a, b syncwire.Entry) int { return strings.Compare(a.Path, b.Path) }
			slices.SortFunc(got, byPath)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			delete(x.known, "mark-1")
			if diff := cmp.Diff(x.list("node_modules", "mark-1"), x.known); diff != "" {
				t.Errorf("what a listener knows (-listing +known):\n%s", diff)
			}
		})
	}
}

// A client that only listens must know in the end what a listing shows, whatever happened and in
// whatever order.
func TestWhoOnlyListensKnowsTheTree(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			x := watchTree(t, tree{"a/x": "1", "a/b/y": "2", "c/z": "3"})
			name := func() string {
				parts := make([]string, 1+r.IntN(3))
				for i := range parts {
					parts[i] = string(rune('a' + r.IntN(4)))
				}
				return filepath.Join(append([]string{x.dir}, parts...)...)
			}
			for range 5 {
				for range 60 {
					// Many of these fail, as a tree has it.
					switch r.IntN(6) {
					case 0, 1:
						_ = os.WriteFile(name(), fmt.Append(nil, r.IntN(100)), 0o644)
					case 2:
						_ = os.MkdirAll(name(), 0o755)
					case 3:
						_ = os.Rename(name(), name())
					case 4:
						_ = os.RemoveAll(name())
					case 5:
						_ = os.Symlink("a", name())
					}
				}
				x.hear()
				if diff := cmp.Diff(x.list(), x.known); diff != "" {
					t.Fatalf("what a listener knows (-listing +known):\n%s", diff)
				}
			}
		})
	}
}

func TestChangesThatAreTooManyAreAResync(t *testing.T) {
	queue, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	var kernels int
	if _, err := fmt.Sscan(string(queue), &kernels); err != nil || kernels > 100_000 {
		kernels = 0 // too many for a test
	}
	for name, n := range map[string]int{"for the watch": maxPending + 1, "for the kernel": kernels + 10} {
		t.Run(name, func(t *testing.T) {
			x := watchTree(t, tree{"a": "1"})
			// On a machine with other work, reading so many takes longer than a burst is waited for.
			x.watch.quiet, x.watch.longest = time.Second, time.Hour
			for i := range n {
				must(t, os.Mkdir(filepath.Join(x.dir, fmt.Sprintf("d%d", i)), 0o755))
				must(t, os.Remove(filepath.Join(x.dir, fmt.Sprintf("d%d", i))))
			}
			must(t, os.Mkdir(filepath.Join(x.dir, "last"), 0o755))
			x.hear()
			if x.resyncs == 0 {
				t.Error("nobody was told to list anew")
			}
			// And it goes on, in what was made meanwhile too.
			must(t, os.WriteFile(filepath.Join(x.dir, "last/f"), nil, 0o644))
			x.hear()
			if diff := cmp.Diff(x.list(), x.known); diff != "" {
				t.Errorf("what a listener knows (-listing +known):\n%s", diff)
			}
		})
	}
}

func TestTooManyDirectoriesAreNotWatched(t *testing.T) {
	dir := t.TempDir()
	for i := range MaxWatchedDirs {
		must(t, os.Mkdir(filepath.Join(dir, fmt.Sprintf("d%d", i)), 0o755))
	}
	w := open(t, dir, DefaultLimits())
	_, err := w.Watch(nil)
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != CodeWatchLimit || !strings.Contains(refused.Message, strconv.Itoa(MaxWatchedDirs)) {
		t.Fatalf("the error is %v, want one that names the limit", err)
	}
	must(t, os.Remove(filepath.Join(dir, "d0")))
	must(t, os.Remove(filepath.Join(dir, "d1"))) // the top is one, and the runner's is none
	x, err := w.Watch(nil)
	must(t, err)
	defer x.Close()
	must(t, os.Mkdir(filepath.Join(dir, "d0"), 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "d1"), 0o755))
	for err == nil {
		_, err = x.Next(t.Context())
	}
	if !errors.As(err, &refused) || refused.Code != CodeWatchLimit {
		t.Errorf("one directory more ends the watch with %v", err)
	}
}

// A directory that is exchanged for a symlink must not lead the watch elsewhere.
func TestAWatchFollowsNoSymlink(t *testing.T) {
	x := watchTree(t, tree{"sub/b": "old"})
	outside := t.TempDir()
	must(t, os.RemoveAll(filepath.Join(x.dir, "sub")))
	must(t, os.Symlink(outside, filepath.Join(x.dir, "sub")))
	x.hear()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), nil, 0o644))
	if changes := x.hear(); len(changes) > 0 {
		t.Errorf("it tells of %v", changes[0])
	}
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	x := watchTree(t, tree{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := x.watch.Next(ctx)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
