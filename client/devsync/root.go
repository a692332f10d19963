// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

// The directory is read by its path and written through a handle. This file keeps the two the same
// directory. `mv proj old && cp -a old proj`, or a clone in its place, leaves the handle at the old one:
// what is read then says nothing of what was agreed on with the other, and what is written goes where
// nobody looks. So the handle is compared with the path before each act. A directory that took the place
// is compared as one that was never synced: no deletion follows from two different trees.

// calmFor is how long a directory that took the place of another has to stay the same before it is
// compared: a clone or a copy may still be filling it.
const calmFor = time.Second

// mostCalming is how often it is read meanwhile: a program may write to it all the time, a log for example.
const mostCalming = 10

// largePart: a deletion of more than one file in so many is a large one.
const largePart = 4

// goneEvery is how often a directory that is gone is looked for.
const goneEvery = 500 * time.Millisecond

// errReplaced means that the path leads to another directory than the one that was compared.
var errReplaced = errors.New("the directory was replaced")

// GoneError means that nothing, or something else than a directory, is where the directory was. The
// sandbox keeps its files.
type GoneError struct{ Dir string }

// Error implements error.
func (e *GoneError) Error() string {
	return e.Dir + " is gone: the sandbox keeps its files, and the sync goes on when a directory is there again"
}

// sameRoot fails with errReplaced or a *GoneError when the path does not lead to the open directory.
func (e *Engine) sameRoot() error {
	there, err := os.Lstat(e.opts.Dir)
	switch {
	case isGone(err), err == nil && !there.IsDir():
		e.gone = true
		return &GoneError{Dir: e.opts.Dir}
	case err != nil:
		return fmt.Errorf("opening the directory: %w", err)
	}
	here, err := e.root.Stat(".")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("opening the directory: %w", err)
	}
	if err != nil || !os.SameFile(here, there) {
		return errReplaced
	}
	return nil
}

// holdRoot opens the directory again if another one took its place, and drops what was agreed on with
// the old one.
func (e *Engine) holdRoot() error {
	err := e.sameRoot()
	if !errors.Is(err, errReplaced) {
		return err
	}
	root, err := os.OpenRoot(e.opts.Dir)
	if isGone(err) {
		return &GoneError{Dir: e.opts.Dir}
	}
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	_ = e.root.Close()
	e.root = root
	e.replaced = max(e.replaced, len(e.base.entries))
	if err := e.base.forget(); err != nil {
		return fmt.Errorf("noting that the directory was replaced: %w", err)
	}
	e.all, e.relist, e.local.asked = true, true, time.Time{}
	clear(e.stuck)
	clear(e.refusals)
	e.note("another directory took the place of " + e.opts.Dir + ": it is compared as if for the first time, and nothing is deleted for what it lacks")
	return nil
}

// tellLed tells once that a symlink by which the directory was named leads elsewhere now, as current -> releases/6
// does after a release. The directory that was opened stays the one that is synced: what was agreed on is its own.
func (e *Engine) tellLed() {
	to, err := filepath.EvalSymlinks(e.named)
	if err != nil || to == e.ledTo {
		return
	}
	if e.ledTo = to; to != e.opts.Dir {
		e.note(fmt.Sprintf("%s leads to %s now, and %s is still what is synced: end this sync and start it again to sync the other", e.named, to, e.opts.Dir))
	}
}

// hold waits for the end of a large deletion that a Watch sees, and reports whether the trees are to be
// compared again. rm -rf takes a directory's files before it takes the directory: what it has taken so far is
// not deleted in the sandbox when it was the beginning of the end of all.
func (e *Engine) hold(ctx context.Context, p *plan) (again bool, err error) {
	gone := 0
	for _, c := range p.push {
		switch {
		case c.want.Type == syncwire.None && c.expect.Type != syncwire.Dir:
			gone++
		case c.expect.Type == syncwire.None:
			gone-- // it may be a file that was renamed
		}
	}
	if !e.watching || e.held || gone*largePart <= len(e.base.entries) {
		e.held = false
		return false, nil
	}
	if err := e.becomeCalm(ctx); err != nil {
		return false, err
	}
	e.held, e.all, e.again = true, true, true
	return true, nil
}

// becomeCalm reads the directory until it is the same twice, and is the same directory.
func (e *Engine) becomeCalm(ctx context.Context) error {
	for range mostCalming {
		if err := pause.For(ctx, calmFor); err != nil {
			return err
		}
		root := e.root
		changed, err := e.readAll(ctx)
		if err != nil || changed == 0 && e.root == root {
			return err
		}
	}
	return nil
}

// calm reads a directory that took the place of another until it is the same twice. One that is still
// empty stays one that was replaced.
func (e *Engine) calm(ctx context.Context) error {
	if e.replaced == 0 {
		return nil
	}
	if len(e.local.nodes) > 0 || e.opts.AllowEmpty {
		if err := e.becomeCalm(ctx); err != nil {
			return err
		}
	}
	if len(e.local.nodes) == 0 && !e.opts.AllowEmpty {
		return &EmptiedError{Dir: e.opts.Dir, Files: e.replaced}
	}
	e.replaced = 0
	return nil
}
