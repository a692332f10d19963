// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"maps"
	"slices"
	"sync"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

// maxHeard bounds the changes that wait until the engine has time for them; more are a reason to
// list the workspace.
const maxHeard = 10_000

// changeStream hears what changes in the workspace, in a goroutine of its own, over as many
// connections as it takes.
type changeStream struct {
	remote  Remote
	exclude []string
	// wake gets a value when there is something to take.
	wake chan struct{}
	stop context.CancelFunc
	done chan struct{}

	mu    sync.Mutex
	heard heard
}

// heard is what a changeStream has for the engine.
type heard struct {
	changes map[string]syncwire.Change
	// relist: not every change is known.
	relist bool
	// failed is why nothing more will be heard; nil otherwise.
	failed error
}

// listen begins to listen.
func listen(ctx context.Context, remote Remote, exclude []string) *changeStream {
	ctx, stop := context.WithCancel(ctx)
	l := &changeStream{
		remote: remote, exclude: exclude, wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
		heard: heard{changes: map[string]syncwire.Change{}},
	}
	go l.run(ctx)
	return l
}

func (l *changeStream) close() {
	l.stop()
	<-l.done
}

// take returns what was heard since it was called last.
func (l *changeStream) take() heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.heard
	l.heard = heard{changes: map[string]syncwire.Change{}}
	return now
}

func (l *changeStream) run(ctx context.Context) {
	defer close(l.done)
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := l.remote.Changes(ctx, l.exclude, func(c syncwire.Change) {
			wait = firstPause
			l.note(func(h *heard) { h.add(c) })
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil && !unavailable(err) {
			l.note(func(h *heard) { h.failed = err })
			return
		}
		// A listing tells whether the sandbox is away, or this connection was just at its end.
		l.note(func(h *heard) { h.relist = true })
		if pause.For(ctx, max(wait, retryAfter(err))) != nil {
			return
		}
	}
}

func (l *changeStream) note(change func(*heard)) {
	l.mu.Lock()
	change(&l.heard)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // it has not woken up yet, and takes this too
	}
}

func (h *heard) add(c syncwire.Change) {
	switch {
	case c.Entry == nil: // the connection begins, or changes were lost
		h.relist = true
	case len(h.changes) >= maxHeard:
		h.relist = true
		clear(h.changes)
	default:
		h.changes[c.Path] = c
	}
}

// listen listens to the workspace for a two-way Watch, under the names that a listing leaves out
// now. One way nobody listens: an idle session costs the sandbox nothing at all.
func (e *Engine) listen(ctx context.Context, p *pollers) {
	if !e.opts.TwoWay || p.there != nil || e.remote == nil {
		return
	}
	if e.changes != nil {
		if slices.Equal(e.changes.exclude, e.excluded) {
			return
		}
		e.changes.close()
	}
	e.changes = listen(ctx, e.opts.Remote, e.excluded)
}

func (e *Engine) unlisten() {
	if e.changes != nil {
		e.changes.close()
		e.changes = nil
	}
}

// hear takes in what was heard.
func (e *Engine) hear(p *pollers) {
	h := e.changes.take()
	if h.failed != nil {
		e.note("the sandbox does not tell what changes in it (" + h.failed.Error() + "), so it is asked every " + p.every.String())
		e.unlisten()
		p.poll()
	}
	e.relist = e.relist || h.relist || h.failed != nil
	for _, path := range slices.Sorted(maps.Keys(h.changes)) {
		if !e.relist {
			e.relist = !e.adopt(h.changes[path])
		}
	}
}

// adopt takes a change over into what is known of the workspace. It is false when only a listing
// can tell what it means.
func (e *Engine) adopt(c syncwire.Change) bool {
	entry := *c.Entry
	entry.Path, entry.ModTime = "", nil
	known, isDir := e.remote.entry(c.Path), e.remote.dirs[c.Path]
	switch {
	case CheckName(c.Path) == "" && e.local.ignored(c.Path):
		return true
	case entry.Type == syncwire.None && known.Type == syncwire.None && !isDir,
		entry.Type == syncwire.Dir && isDir,
		!isDir && known.Type == entry.Type && known.Same(entry):
		return true // what this engine did itself comes back too
	case CheckName(c.Path) != "", isDir, entry.Type != syncwire.File,
		// A file is compared by its content before it counts. Of anything else an old word, from
		// before the last batch or the last listing, would count: a deletion most of all.
		c.Revision < e.revision:
		return false
	}
	for dir := range ancestors(c.Path) {
		if !e.remote.dirs[dir] {
			return false
		}
	}
	e.remote.entries[c.Path] = entry
	e.remote.tag = ""
	e.todo[c.Path] = true
	return true
}
