// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package devsync

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// accepting is an empty workspace that takes every batch.
type accepting struct{ Remote }

func (accepting) List(context.Context, []string, string) (*Listing, error) { return &Listing{}, nil }

func (accepting) Apply(_ context.Context, _ string, write func(*syncwire.Encoder) error) (*Applied, error) {
	return &Applied{}, write(syncwire.NewEncoder(&bytes.Buffer{}, nil, ""))
}

// The limits of inotify are for all programs of a person together.
func TestADirectoryThatCannotBeWatchedIsReadAndThatIsSaid(t *testing.T) {
	dir := t.TempDir()
	events := make(chan Event, 100)
	e, err := Open(Options{Dir: dir, ID: "x", StateDir: t.TempDir(), Remote: accepting{}, OnEvent: func(e Event) { events <- e }})
	if err != nil {
		t.Fatal(err)
	}
	e.newWatcher = func(dir string) *watcher {
		w := newWatcher(dir)
		w.failed = syscall.ENOSPC // and so no directory is watched
		return w
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Watch(ctx) }()
	await := func(is func(Event) bool) {
		t.Helper()
		for late := time.After(20 * time.Second); ; {
			select {
			case e := <-events:
				if is(e) {
					return
				}
			case <-late:
				t.Fatal("it did not happen")
			}
		}
	}
	await(func(e Event) bool { return e.Type == EventNote && strings.Contains(e.Reason, "max_user_watches") })
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(func(e Event) bool { return e.Path == "a" && e.State == FileApplied })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	e.Close()
}

// A watch may have lost what happened, and a file system may not tell it: the whole is read every now and then.
func TestWhatNoWatchTellsIsFoundByReadingTheWhole(t *testing.T) {
	deaf := func(string) *watcher { return newWatcher(filepath.Join(t.TempDir(), "elsewhere")) } // and so it hears nothing
	for name, c := range map[string]struct {
		change func(*Engine)
		told   string
	}{
		"a watch that lost something": {func(e *Engine) { e.wholeEvery = 10 * time.Millisecond }, ""},
		"a file system that is silent": {
			func(e *Engine) { e.wholeEvery, e.silent = time.Hour, "9p" },
			"is on 9p, which does not tell of every change, so it is read every 2s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			events := make(chan Event, 100)
			e, err := Open(Options{Dir: dir, ID: "x", StateDir: t.TempDir(), Remote: accepting{}, OnEvent: func(e Event) { events <- e }})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			e.newWatcher = deaf
			c.change(e)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- e.Watch(ctx) }()
			notes, wrote := "", false
			for late := time.After(20 * time.Second); ; {
				select {
				case <-late:
					t.Fatalf("the file does not arrive; the notes are %q", notes)
				case e := <-events:
					if e.Type == EventNote {
						notes += e.Reason
					}
					if e.Type == EventSettled && !wrote {
						wrote = true
						if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
							t.Fatal(err)
						}
					}
					if e.Path != "a" || e.State != FileApplied {
						continue
					}
				}
				break
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if !strings.HasSuffix(notes, c.told) || c.told == "" && notes != "" {
				t.Errorf("the notes are %q, want %q", notes, c.told)
			}
		})
	}
}

// 50,000 files are not read again when nothing of them changed.
func TestWhatDidNotChangeIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tr := newTree(dir)
	scan := func(want int, what string) {
		t.Helper()
		tr.hashed = 0
		if _, err := tr.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if tr.hashed != want {
			t.Errorf("%s: %d files were read, want %d", what, tr.hashed, want)
		}
	}
	scan(3, "the first time")
	scan(3, "files that were written a moment ago, and may be again within a tick of the clock")
	for path, n := range tr.nodes { // as if they had been read later
		n.Read = time.Now().Add(time.Hour)
		tr.nodes[path] = n
	}
	scan(0, "files that are as they were")
	if err := os.Chtimes(filepath.Join(dir, "b"), long, long); err != nil {
		t.Fatal(err)
	}
	scan(1, "one that was touched")
}

func FuzzNamesStayInside(f *testing.F) {
	for _, seed := range [][2]string{
		{"a/b", "../c"},
		{"a", ".."},
		{"a/b/c", "../../.git/config"},
		{"a", "b/../../x"},
		{"l", "."},
		{"a/l", ".."},
		{"../x", "y"},
		{"a/.GIT/x", "y"},
		{"a", "/etc"},
		{"a/l", "../.."},
		{".g\u200cit/x", ""},
		{"a", "./b"},
		{"a", "b/"},
		{"d/a", "x/../../b"},
		{"d/a", "x/../.git/config"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, target string) {
		if CheckName(name) != "" {
			return
		}
		const root = "/root/of/the/tree"
		if full := path.Join(root, name); full != root+"/"+name {
			t.Fatalf("%q leads to %q", name, full)
		}
		if CheckTarget(name, target) != "" {
			return
		}
		full := path.Join(root, path.Dir(name), target)
		if full != root && !strings.HasPrefix(full, root+"/") {
			t.Fatalf("the symlink %q -> %q leads to %q", name, target, full)
		}
		for part := range strings.SplitSeq(strings.ToLower(full), "/") {
			if part == ".git" {
				t.Fatalf("the symlink %q -> %q leads to %q", name, target, full)
			}
		}
	})
}

// Where files have no executable bit, as on Windows, a program of the sandbox stays one when it is edited here.
func TestWithoutAnExecutableBitTheAgreedOneHolds(t *testing.T) {
	dir := t.TempDir()
	agreed := map[string]bool{"program": true, "script": true, "was": false}
	for name, content := range map[string]string{"program": "\x7fELF", "script": "#!/bin/sh", "was": "#!/bin/sh", "new": "#!/bin/sh", "data": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tr := newTree(dir)
	tr.bits = false
	tr.known = func(path string) (executable, ok bool) {
		executable, ok = agreed[path]
		return executable, ok
	}
	if _, err := tr.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"program": true, "script": true, "was": false, "new": true, "data": false} {
		if got := tr.entry(path).Executable; got != want {
			t.Errorf("%s is executable: %t, want %t", path, got, want)
		}
	}
}

// A directory that is another one each time it has been read would be read without an end.
func TestADirectoryThatIsReplacedAgainAndAgainIsNotReadForEver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e, err := Open(Options{Dir: dir, ID: "x", StateDir: t.TempDir(), Remote: accepting{}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	read := 0
	e.newWatcher = func(dir string) *watcher { // which comes after the directory was opened, and before it is read
		read++
		if err := errors.Join(os.Rename(dir, dir+strconv.Itoa(read)), os.Mkdir(dir, 0o700)); err != nil {
			t.Error(err)
		}
		return newWatcher(dir)
	}
	var unsettled *UnsettledError
	if err := e.Watch(t.Context()); !errors.As(err, &unsettled) || read != maxRounds {
		t.Errorf("it was read %d times, and ended with %v", read, err)
	}
}

// An intent that stays in the file would be believed by the next run.
func TestWhatWasForgottenStaysForgotten(t *testing.T) {
	dir := t.TempDir()
	file := syncwire.Entry{Type: syncwire.File, Digest: strings.Repeat("0", 64)}
	b, err := openBase(dir, "id", "root")
	if err != nil {
		t.Fatal(err)
	}
	b.set("agreed", file)
	b.intend("intended", file)
	if err := errors.Join(b.flush(), b.forget()); err != nil {
		t.Fatal(err)
	}
	b.set("after", file)
	_ = b.flush()
	b.close()
	if b, err = openBase(dir, "id", "root"); err != nil {
		t.Fatal(err)
	}
	defer b.close()
	if len(b.entries) != 1 || len(b.intents) != 0 || b.entry("after").Type != syncwire.File {
		t.Errorf("the file has %v, intended %v", b.entries, b.intents)
	}
}
