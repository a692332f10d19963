// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// list asks the workspace what it has.
func (e *Engine) list(ctx context.Context) error {
	excludes, known := e.local.excludes(), ""
	if e.remote != nil && slices.Equal(excludes, e.excluded) {
		known = e.remote.tag
	}
	listing, err := e.opts.Remote.List(ctx, excludes, known)
	if err != nil {
		return err
	}
	e.relist, e.excluded = false, excludes
	if listing == nil {
		return nil
	}
	if e.opts.TwoWay && listing.Skipped != e.skipped {
		if e.skipped = listing.Skipped; e.skipped > 0 {
			e.note(fmt.Sprintf("the sandbox keeps %d files or directories to itself: their names have a control character, a line break or a backslash, or they lie too deep or cannot be read", e.skipped))
		}
	}
	now := newRemoteTree()
	now.tag = listing.Tag
	for _, entry := range listing.Entries {
		path := entry.Path
		switch reason := CheckName(path); {
		case reason != "":
			now.refused[path] = reason
		case e.local.ignored(path):
		case entry.Type == syncwire.Dir:
			now.dirs[path] = true
		default:
			entry.Path, entry.ModTime = "", nil
			now.entries[path] = entry
		}
	}
	return e.seen(now)
}

// seen replaces what is known of the workspace, and has compared what is new.
func (e *Engine) seen(now *remoteTree) error {
	if len(now.entries) == 0 && len(e.base.entries) > 0 {
		// A workspace that lost everything was not told to: its volume is a new one, or somebody
		// cleared it. Files travel there as for the first time, and nothing is deleted here.
		e.note("the sandbox has none of the files that it had: all are sent again")
		if err := e.base.forget(); err != nil {
			return fmt.Errorf("noting what was synced: %w", err)
		}
		e.revision = 0 // a new volume counts anew
		e.all = true
	}
	before := e.remote
	e.remote = now
	if before == nil {
		e.all = true
		return nil
	}
	for path, entry := range now.entries {
		if !before.entry(path).Same(entry) {
			e.todo[path] = true
		}
	}
	for path := range before.entries {
		if _, ok := now.entries[path]; !ok {
			e.todo[path] = true
		}
	}
	if !maps.Equal(before.dirs, now.dirs) {
		e.all = true // a directory may be in the way, or out of it
	}
	return nil
}

// tidy takes away the directories in the workspace that a deletion has left without files, as
// git does. One that has others, ignored ones too, stays.
func (e *Engine) tidy(ctx context.Context, changes []change) error {
	candidates := map[string]bool{}
	for _, c := range changes {
		if c.want.Type != syncwire.None || e.remote.entry(c.path).Type != syncwire.None {
			continue
		}
		for dir := range ancestors(c.path) {
			if e.remote.dirs[dir] && !e.local.dirs[dir] {
				candidates[dir] = true
			}
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	for path := range e.remote.entries {
		for dir := range ancestors(path) {
			delete(candidates, dir)
		}
	}
	restart := ""
	if e.owed {
		restart = syncwire.RestartLater // or this would be the end of what is owed
	}
	for range 2 {
		dirs := slices.Sorted(maps.Keys(candidates))
		if len(dirs) == 0 {
			return nil
		}
		applied, err := e.opts.Remote.Apply(ctx, restart, func(out *syncwire.Encoder) error {
			for _, dir := range dirs {
				if err := out.Entry(syncwire.Frame{Op: syncwire.OpDelete, Path: dir, Expect: &syncwire.Entry{Type: syncwire.Dir}}); err != nil {
					return err
				}
			}
			return out.End()
		})
		var remote *RemoteError
		switch {
		case err == nil:
			e.revision = applied.Revision
			for _, dir := range dirs {
				delete(e.remote.dirs, dir)
			}
			return nil
		case !errors.As(err, &remote) || remote.Kind == Unavailable || remote.Kind == Denied:
			return err
		}
		for _, c := range remote.Conflicts {
			for dir := range candidates {
				if within(c.Path, dir) {
					delete(candidates, dir)
				}
			}
		}
	}
	return nil
}
