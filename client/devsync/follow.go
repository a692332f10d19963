// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Watch keeps both sides alike until the context ends, and then returns nil. A sandbox that cannot
// be reached is tried again for as long as it takes; an error means that nothing helps.
func (e *Engine) Watch(ctx context.Context) error {
	e.watching = true
	defer e.unwatch()
	if err := e.rescan(ctx); err != nil {
		return orEnd(ctx, err)
	}
	ticks := pollers{every: e.opts.PollInterval}
	ticks.read(e.wholeEvery)
	defer ticks.stop()
	defer e.unlisten()
	lost, restless, missing, next := false, false, false, firstPause
	for {
		var retry <-chan time.Time
		err := e.settle(ctx)
		var emptied *EmptiedError
		var unsettled *UnsettledError
		var gone *GoneError
		switch {
		case err == nil:
			if lost {
				e.emit(Event{Type: EventResumed})
			}
			lost, restless, missing, next = false, false, false, firstPause
		case errors.As(err, &gone):
			if !missing {
				e.emit(Event{Type: EventUnsettled, Reason: err.Error()})
			}
			missing, retry = true, time.After(goneEvery)
		case errors.As(err, &emptied):
			e.emit(Event{Type: EventUnsettled, Reason: err.Error()})
		case errors.As(err, &unsettled):
			if !restless {
				e.emit(Event{Type: EventUnsettled, Reason: err.Error()})
			}
			restless, retry, next = true, time.After(next), min(2*next, longestPause)
		case unavailable(err) && ctx.Err() == nil:
			wait := max(next, retryAfter(err))
			e.emit(Event{Type: EventLost, Reason: err.Error(), RetrySeconds: wait.Seconds(), Suspended: isSuspended(err)})
			lost, next = true, min(2*next, longestPause)
			retry = time.After(wait)
		default:
			return orEnd(ctx, err)
		}
		e.tellUnwatched(&ticks)
		e.listen(ctx, &ticks)
		if err := e.await(ctx, &ticks, retry); errors.As(err, &gone) {
			e.all = true // so that settling finds the same, and looks for the directory
		} else if err != nil {
			return orEnd(ctx, err)
		}
	}
}

// await waits until there is something to do.
func (e *Engine) await(ctx context.Context, ticks *pollers, retry <-chan time.Time) error {
	var heard <-chan struct{}
	if e.changes != nil {
		heard = e.changes.wake
	}
	select {
	case <-heard:
		e.hear(ticks)
	case <-ctx.Done():
		return ctx.Err()
	case n := <-e.watcher.changes:
		return e.notice(ctx, n)
	case <-ticks.remote:
		e.relist = true
	case <-ticks.local:
		began := time.Now()
		err := e.rescan(ctx)
		ticks.hasRead(e.wholeEvery, time.Since(began))
		return err
	case <-e.refresh:
		e.relist = true
	case <-retry:
	}
	return nil
}

// tellUnwatched has the directory read every now and then when nobody tells all that changes in it.
func (e *Engine) tellUnwatched(ticks *pollers) {
	switch {
	case e.watcher.failed != nil && ticks.readAlone():
		e.note(fmt.Sprintf("the directory cannot be watched (%v), so it is read every %s; raise fs.inotify.max_user_watches, or ignore directories that need no sync", e.watcher.failed, rescanEvery))
	case e.silent != "" && ticks.readAlone():
		e.note(fmt.Sprintf("%s is on %s, which does not tell of every change, so it is read every %s", e.opts.Dir, e.silent, rescanEvery))
	}
}

// notice takes in what the watcher saw.
func (e *Engine) notice(ctx context.Context, n noticed) error {
	ignores := false
	for path := range n.paths {
		ignores = ignores || isIgnoreFile(path)
		e.dirty[path] = true
	}
	if ignores {
		e.local.asked = time.Time{} // git has another answer
	}
	moved := slices.ContainsFunc(n.moved, func(path string) bool { return e.local.dirs[path] })
	if n.all || moved || ignores || len(n.paths) > manyChanges {
		e.all = e.all || ignores
		return e.rescan(ctx)
	}
	return e.lookAgain(ctx)
}

// unwatch ends the watching.
func (e *Engine) unwatch() {
	if e.watcher != nil {
		e.watcher.close()
	}
	e.watching, e.watcher, e.local.watch, e.local.unwatch = false, nil, nil, nil
}
