// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long nothing has to happen before a burst of changes is looked at, and
	// longest how long a burst that does not end is waited for.
	quiet   = 15 * time.Millisecond
	longest = 150 * time.Millisecond

	// rescanEvery is how often the directory is read when it cannot be watched, and wholeEvery how often
	// when it can: a net below what the kernel tells. A directory that takes long to read is read less often,
	// so that reading it takes at most one part in so many of the time.
	rescanEvery = 2 * time.Second
	rescanPart  = 10
	wholeEvery  = 30 * time.Second
	wholePart   = 50
)

// noticed is what happened in the directory.
type noticed struct {
	paths map[string]bool
	// moved are those whose name is another one now. A watch follows a directory, and not its name: those
	// below one that has moved report names that are no more, or are those of others by now.
	moved []string
	// all: some of it is not known, so that everything has to be looked at.
	all bool
}

// watcher reports what happens in directories.
type watcher struct {
	root    string
	fs      *fsnotify.Watcher
	changes chan noticed
	stop    chan struct{}
	done    chan struct{}
	// failed is why not every directory is watched; nil if all are.
	failed error
}

// newWatcher begins to watch. Where the kernel does not let it, the watcher has failed.
func newWatcher(root string) *watcher {
	w := &watcher{root: root, changes: make(chan noticed), stop: make(chan struct{}), done: make(chan struct{})}
	if w.fs, w.failed = fsnotify.NewWatcher(); w.failed == nil {
		go w.run()
	}
	return w
}

func (w *watcher) close() {
	if w.fs == nil {
		return
	}
	close(w.stop)
	<-w.done
	_ = w.fs.Close()
}

// add watches a directory. Where the kernel has no watch left, the whole is read every now and
// then instead: a directory that is not watched would look as if nothing happened in it.
func (w *watcher) add(dir string) {
	if w.failed != nil {
		return
	}
	err := w.fs.Add(filepath.Join(w.root, dir))
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		w.failed = err
	}
	// Anything else is a directory that is gone, or that cannot be read: the scan tells.
}

// remove ends the watch of a directory.
func (w *watcher) remove(dir string) {
	if w.fs != nil {
		_ = w.fs.Remove(filepath.Join(w.root, dir)) // the kernel may have ended it before
	}
}

// run collects what happens until it is quiet, and hands it over when somebody asks.
func (w *watcher) run() {
	defer close(w.done)
	var (
		now   = noticed{paths: map[string]bool{}}
		began time.Time
		timer = time.NewTimer(time.Hour)
		out   chan noticed
	)
	defer timer.Stop()
	for {
		select {
		case e, ok := <-w.fs.Events:
			if !ok {
				return
			}
			path, err := filepath.Rel(w.root, e.Name)
			path = filepath.ToSlash(path)
			if err != nil || strings.Contains(path, incoming) {
				continue
			}
			if path == "." {
				now.all = true
			} else {
				now.paths[path] = true
				if e.Op.Has(fsnotify.Rename) {
					now.moved = append(now.moved, path)
				}
			}
		case _, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			now.all = true // the queue ran over, or worse
		case <-timer.C:
			out, began = w.changes, time.Time{}
			continue
		case out <- now:
			now, out = noticed{paths: map[string]bool{}}, nil
			continue
		case <-w.stop:
			return
		}
		if began.IsZero() {
			began = time.Now()
		}
		if out == nil {
			timer.Reset(min(quiet, max(0, time.Until(began.Add(longest)))))
		}
	}
}
