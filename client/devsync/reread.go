// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// rescan looks at everything. A watch starts again with it: what it reported may have been lost,
// and so the knowledge which directory has which name.
func (e *Engine) rescan(ctx context.Context) error {
	_, err := e.readAll(ctx)
	return err
}

// readAll is rescan, and returns how many paths changed. What was read is one directory, the open one.
func (e *Engine) readAll(ctx context.Context) (int, error) {
	for range maxRounds {
		if err := e.holdRoot(); err != nil {
			return 0, err
		}
		if e.watching {
			e.unwatch()
			w := e.newWatcher(e.opts.Dir)
			e.watching, e.watcher, e.local.watch, e.local.unwatch = true, w, w.add, w.remove
		}
		changed, err := e.local.scan(ctx)
		if same := e.sameRoot(); same != nil && ctx.Err() == nil {
			continue // what was read may be half of each
		}
		if err != nil {
			return 0, err
		}
		clear(e.dirty)
		e.gone = false
		e.tellLed()
		sweep(e.opts.Dir, e.local.dirs)
		if e.local.ruled {
			e.local.ruled = false
			e.ruled()
		}
		if why := e.local.rules.above.untold; why != "" && why != e.untold {
			e.untold = why
			e.note("git does not say which files it tracks (" + why + "): those that a rule ignores stay here")
		}
		e.changed(changed)
		e.tellLeft()
		return len(changed), nil
	}
	return 0, &UnsettledError{}
}

// readChanged looks at what is dirty, or at everything when another directory has taken the place.
func (e *Engine) readChanged(ctx context.Context) error {
	if err := e.lookAgain(ctx); err != nil && e.sameRoot() == nil {
		return err
	}
	if err := e.sameRoot(); err != nil || e.gone {
		if err := e.rescan(ctx); err != nil {
			return err
		}
	}
	return e.calm(ctx)
}

// lookAgain looks at what is dirty.
func (e *Engine) lookAgain(ctx context.Context) error {
	// What is gone comes first: a directory that was renamed loses its watches under the old
	// names before it gets them under the new ones.
	paths := slices.Collect(maps.Keys(e.dirty))
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(e.exists(a), e.exists(b)), cmp.Compare(a, b))
	})
	for _, path := range paths {
		changed, err := e.local.look(ctx, path)
		if err != nil {
			return err
		}
		e.changed(changed)
		e.todo[path] = true
		delete(e.dirty, path)
	}
	if len(paths) > 0 {
		e.tellLeft()
	}
	return nil
}

// exists is 1 for what is there and 0 for what is not.
func (e *Engine) exists(path string) int {
	if _, err := os.Lstat(filepath.Join(e.opts.Dir, path)); err != nil {
		return 0
	}
	return 1
}

func (e *Engine) changed(paths []string) {
	slices.Sort(paths)
	for _, path := range paths {
		e.todo[path] = true
		if isIgnoreFile(path) {
			e.ruled()
		}
		if _, ok := e.conflicts[path]; ok {
			e.relist = true // one way nobody listens: the other side may have given way
		}
		e.emit(Event{Type: EventFile, Path: path, State: Pending, Deleted: e.local.entry(path).Type == syncwire.None})
	}
}

// ruled has everything compared by other rules. Files of the sandbox that did not count may do so now: a
// listing that is as before has them too.
func (e *Engine) ruled() {
	e.all, e.relist = true, true
	if e.remote != nil {
		e.remote.tag = ""
	}
}
