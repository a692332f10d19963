// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// recording is a workspace that takes every batch and remembers it. It is used by one goroutine.
type recording struct {
	Remote
	has     map[string]syncwire.Entry
	deleted []string
}

func (r *recording) List(context.Context, []string, string) (*Listing, error) {
	listing := &Listing{}
	for _, path := range slices.Sorted(maps.Keys(r.has)) {
		entry := r.has[path]
		entry.Path = path
		listing.Entries = append(listing.Entries, entry)
	}
	return listing, nil
}

func (r *recording) Apply(_ context.Context, restart string, write func(*syncwire.Encoder) error) (*Applied, error) {
	var batch bytes.Buffer
	if err := write(syncwire.NewEncoder(&batch, nil, restart)); err != nil {
		return nil, err
	}
	for in := syncwire.NewDecoder(&batch); ; {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			return &Applied{}, nil
		}
		if err != nil {
			return nil, err
		}
		switch f.Op {
		case syncwire.OpFile:
			r.has[f.Path] = syncwire.Entry{Type: syncwire.File, Size: f.Size, Digest: f.Digest, Executable: *f.Executable}
		case syncwire.OpDelete:
			delete(r.has, f.Path)
			r.deleted = append(r.deleted, f.Path)
		default:
		}
	}
}

// rm -rf proj && git clone … proj: the watch sees the files go one by one, and then another directory.
func TestALargeDeletionIsMeantOnlyIfTheDirectoryStays(t *testing.T) {
	for name, c := range map[string]struct {
		replaced bool
		want     []string // that are deleted in the sandbox
	}{
		"it stays":                    {false, []string{"sub", "sub/b", "sub/c", "sub/d"}},
		"another one takes its place": {true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			put := func(name, content string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Error(err)
				}
			}
			for _, name := range []string{"a", "sub/b", "sub/c", "sub/d"} {
				put(name, name)
			}
			remote := &recording{has: map[string]syncwire.Entry{}}
			events := make(chan Event, 1000)
			e, err := Open(Options{Dir: dir, ID: "x", StateDir: t.TempDir(), Remote: remote, OnEvent: func(e Event) { events <- e }})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			e.newWatcher = func(dir string) *watcher {
				// It begins again when the deletion was seen, and is waited for.
				_, there := e.local.nodes["sub/b"]
				if c.replaced && !there && len(e.local.nodes) == 1 {
					if err := errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700)); err != nil {
						t.Error(err)
					}
					put("a", "a")
					c.replaced = false // once
				}
				return newWatcher(dir)
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
			await(func(e Event) bool { return e.Type == EventSettled })
			if err := os.Rename(filepath.Join(dir, "sub"), dir+".sub"); err != nil { // all at once
				t.Fatal(err)
			}
			if name != "it stays" {
				await(func(e Event) bool { return e.Type == EventNote })
			} else {
				await(func(e Event) bool { return e.Path == "sub/d" && e.State == FileApplied })
			}
			put("later", "1")
			await(func(e Event) bool { return e.Path == "later" && e.State == FileApplied })
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			slices.Sort(remote.deleted)
			if diff := cmp.Diff(c.want, remote.deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// A program that writes to the directory all the time must not keep a deletion from the sandbox.
func TestADirectoryThatNeverBecomesCalmIsComparedNevertheless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		e, err := Open(Options{Dir: dir, ID: "x", StateDir: t.TempDir(), Remote: accepting{}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		read := 0
		e.local.watch = func(string) { // before each reading
			read++
			if err := os.WriteFile(filepath.Join(dir, "log"), []byte(strconv.Itoa(read)), 0o600); err != nil {
				t.Error(err)
			}
		}
		began := time.Now()
		if err := e.becomeCalm(t.Context()); err != nil || read != mostCalming || time.Since(began) != mostCalming*calmFor {
			t.Errorf("it was read %d times in %s, %v", read, time.Since(began), err)
		}
	})
}
