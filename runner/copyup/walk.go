// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// level is a directory of the source that a walk is in.
type level struct {
	source folder
	stat   unix.Statx_t
	path   string // relative to the source, which is ""
	depth  int
	into   *destination // nil in the survey
}

// join returns the path of a name in the directory.
func (l *level) join(name string) string {
	if l.path == "" {
		return name
	}
	return l.path + "/" + name
}

// visitor is called by a walk.
type visitor interface {
	// entry is called for each file and each symbolic link, before the walk leaves the directory.
	entry(in *level, name string, st *unix.Statx_t) error
	// enter is called for each directory below the source, before its entries.
	enter(l, parent *level, name string) error
	// leave is called after all entries of a directory that was entered, and for the source, and closes it.
	leave(l *level) error
}

// walk goes through the source, one directory at a time. It reports what is not copied to the tally.
type walk struct {
	limits  Limits
	visitor visitor
	tally   *tally
	top     unix.Statx_t
	// skip are directories below the source that the copy itself writes to.
	skip    []inode
	entries int64
}

// run walks from the source.
func (w *walk) run(ctx context.Context, top *level) error {
	w.top = top.stat
	return errors.Join(w.below(ctx, top), w.visitor.leave(top))
}

func (w *walk) below(ctx context.Context, l *level) error {
	return l.source.each(func(name string) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return w.entry(ctx, l, name)
	})
}

func (w *walk) entry(ctx context.Context, l *level, name string) error {
	st, err := l.source.look(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // deleted since
	case denied(err):
		w.tally.unread(l.join(name))
		return nil
	case err != nil:
		return fmt.Errorf("looking at %q: %w", l.join(name), err)
	case w.elsewhere(&st):
		w.tally.skipMount(l.join(name))
		return nil
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && kind != unix.S_IFREG && kind != unix.S_IFLNK {
		w.tally.skip()
		return nil
	}
	if err := w.count(l, name); err != nil {
		return err
	}
	if kind == unix.S_IFDIR {
		return w.directory(ctx, l, name, &st)
	}
	return w.visitor.entry(l, name, &st)
}

// elsewhere reports whether an entry is a mount. An overlay shows files of several devices as its own, so only
// directories are known by their device, on kernels that do not number mounts (before Linux 5.8).
func (w *walk) elsewhere(st *unix.Statx_t) bool {
	if w.top.Mask&st.Mask&unix.STATX_MNT_ID != 0 {
		return w.top.Mnt_id != st.Mnt_id
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && inodeOf(st).dev != inodeOf(&w.top).dev
}

func (w *walk) count(l *level, name string) error {
	if w.entries++; w.entries > w.limits.Entries {
		return tooLarge("it has more than %d files and directories", w.limits.Entries)
	}
	if len(l.path)+len(name) >= w.limits.PathBytes && len(l.join(name)) > w.limits.PathBytes {
		return tooLarge("the path of %q has more than %d bytes", name, w.limits.PathBytes)
	}
	return nil
}

func (w *walk) directory(ctx context.Context, parent *level, name string, st *unix.Statx_t) error {
	if slices.Contains(w.skip, inodeOf(st)) {
		w.tally.skipMount(parent.join(name))
		return nil
	}
	l := &level{stat: *st, path: parent.join(name), depth: parent.depth + 1}
	if l.depth > w.limits.Depth {
		return tooLarge("%q lies below more than %d directories", l.path, w.limits.Depth)
	}
	var err error
	switch l.source, err = parent.source.folder(name); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case denied(err):
		w.tally.unread(l.path + "/")
		return nil
	case err != nil:
		return fmt.Errorf("opening %q: %w", l.path, err)
	}
	if err := w.visitor.enter(l, parent, name); err != nil {
		l.source.close()
		return err
	}
	return errors.Join(w.below(ctx, l), w.visitor.leave(l))
}

// denied reports whether the pod's user may not read something.
func denied(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}
