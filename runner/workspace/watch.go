// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

const (
	// MaxWatchedDirs bounds the directories that one watch looks after. The kernel's own limit
	// is for all processes of a user, in all sandboxes of a node.
	MaxWatchedDirs = 10_000

	// maxPending bounds the paths that are collected before they are looked at; more are told
	// as a resync.
	maxPending = 4096

	// watchQuiet is how long nothing has to happen before what happened is told, and
	// watchLongest how long a burst that does not end is waited for.
	watchQuiet   = 15 * time.Millisecond
	watchLongest = 150 * time.Millisecond

	// watchRest is how many times as long as it looked at files a watch rests afterwards: an
	// app that writes a large file without end costs at most a fifth of a processor.
	watchRest = 4

	watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
)

// errTooManyDirs means that the workspace has more directories than a watch looks after.
var errTooManyDirs = &Error{
	Code:    CodeWatchLimit,
	Message: fmt.Sprintf("the workspace has more than %d directories that are not excluded, and so many cannot be watched", MaxWatchedDirs),
}

// Watch tells what changes in the workspace, whoever changes it. It costs nothing while nothing
// happens. It is used by one goroutine.
type Watch struct {
	workspace *Workspace
	exclude   []string

	// events is inotify. Its descriptor is kept beside it, since File.Fd would make it block.
	events     *os.File
	descriptor int
	buffer     []byte
	// dirs and numbers are the watched directories by the kernel's number and by path.
	dirs    map[int32]string
	numbers map[string]int32

	// quiet and longest are watchQuiet and watchLongest, but in tests whose burst has to be told whole.
	quiet, longest time.Duration

	// pending are paths to look at; true for those at which a directory was that has left.
	pending map[string]bool
	lost    string    // why changes were lost; empty if none were
	rest    time.Time // until when the next look waits
}

// Watch begins to watch everything but what has one of the names in exclude, at any depth. It
// fails with [CodeWatchLimit] when that is more than can be watched.
func (w *Workspace) Watch(exclude []string) (*Watch, error) {
	x := &Watch{workspace: w, exclude: exclude, buffer: make([]byte, 64<<10), pending: map[string]bool{}, quiet: watchQuiet, longest: watchLongest}
	if err := x.begin(); err != nil {
		return nil, err
	}
	clear(x.pending) // what is there, is listed
	x.lost = ""
	return x, nil
}

// Close ends the watch.
func (x *Watch) Close() { _ = x.events.Close() }

// begin watches every directory anew.
func (x *Watch) begin() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return watchFailed(err)
	}
	if x.events != nil {
		x.Close()
	}
	x.events, x.descriptor = os.NewFile(uintptr(fd), "inotify"), fd
	x.dirs, x.numbers = map[int32]string{}, map[string]int32{}
	top, err := x.workspace.top.openDir(".")
	if err == nil {
		defer top.close()
		err = x.add(top, "", 1)
	}
	if err != nil {
		x.Close()
		return watchFailed(err)
	}
	return nil
}

// watchFailed says what a person can do about it.
func watchFailed(err error) error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return &Error{
			Code: CodeWatchLimit, Err: err,
			Message: "the node has no inotify watch left for this sandbox's user (fs.inotify.max_user_watches and max_user_instances, which all sandboxes of a node share)",
		}
	default:
		return failed("", "watching the workspace", err)
	}
}

// Next waits until something has happened, until it is quiet again, and says what lies at the
// paths now, in their order. Changes that were lost come as one with a reason to list. It fails
// with the context's error, and with [CodeWatchLimit] when the directories became too many.
func (x *Watch) Next(ctx context.Context) ([]syncwire.Change, error) {
	for {
		if err := x.collect(ctx); err != nil {
			return nil, err
		}
		began := time.Now()
		changes, err := x.look()
		if err != nil || len(changes) > 0 {
			x.rest = time.Now().Add(watchRest * time.Since(began))
			return changes, err
		}
	}
}

// collect reads events until it is quiet.
func (x *Watch) collect(ctx context.Context) error {
	timer := time.NewTimer(time.Until(x.rest))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	// Its own deadline ends a read at once, whatever the quiet time has set.
	// When begin replaces the events, the quiet time ends the next read.
	events := x.events
	stop := context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var until time.Time
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		deadline := time.Time{}
		if !until.IsZero() {
			if deadline = time.Now().Add(x.quiet); deadline.After(until) {
				deadline = until
			}
		}
		_ = x.events.SetReadDeadline(deadline)
		if ctx.Err() != nil { // it ended before the deadline was set, which has undone its own
			return ctx.Err()
		}
		n, err := x.events.Read(x.buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return nil
		case err != nil:
			return failed("", "watching the workspace", err)
		}
		if err := x.take(x.buffer[:n]); err != nil {
			return err
		}
		if until.IsZero() && (len(x.pending) > 0 || x.lost != "") {
			until = time.Now().Add(x.longest)
		}
	}
}

// take notes what events are about.
func (x *Watch) take(buffer []byte) error {
	for len(buffer) >= unix.SizeofInotifyEvent {
		e := parseEvent(buffer)
		buffer = buffer[e.size:]
		dir, known := x.dirs[e.number]
		switch {
		case e.mask&unix.IN_Q_OVERFLOW != 0:
			x.lose("the kernel's queue of changes ran over")
			// Directories may be there that nobody watches.
			if err := x.begin(); err != nil {
				return err
			}
			return nil // the rest is of watches that are no more
		case e.mask&unix.IN_IGNORED != 0:
			x.forget(e.number)
			continue
		case !known, dir == "" && e.name == StagingName, slices.Contains(x.exclude, e.name), e.name == "":
			continue
		}
		path := dir + e.name
		if e.mask&unix.IN_ISDIR == 0 {
			x.note(path, false)
		} else if err := x.directory(e.mask, path); err != nil {
			return err
		}
	}
	return nil
}

// directory notes what happened to one.
func (x *Watch) directory(mask uint32, path string) error {
	x.note(path, mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0)
	switch {
	case mask&unix.IN_DELETE != 0:
		x.forget(x.numbers[path+"/"]) // there was nothing below it any more
	case mask&unix.IN_MOVED_FROM != 0:
		x.drop(path)
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		return x.appeared(path)
	}
	return nil
}

// event is a record of inotify(7).
type event struct {
	number int32
	mask   uint32
	name   string
	size   int
}

func parseEvent(b []byte) event {
	// In the order of struct inotify_event, in the machine's own byte order.
	native := binary.NativeEndian
	e := event{number: int32(native.Uint32(b)), mask: native.Uint32(b[4:])}
	length := int(native.Uint32(b[12:]))
	e.size = unix.SizeofInotifyEvent + length
	e.name, _, _ = strings.Cut(string(b[unix.SizeofInotifyEvent:e.size]), "\x00")
	return e
}

func (x *Watch) lose(why string) {
	x.lost = why
	clear(x.pending)
}

// note has a path looked at. left tells that a directory was there.
func (x *Watch) note(path string, left bool) {
	switch {
	case x.lost != "" || CheckPath(path) != nil:
	case len(x.pending) >= maxPending:
		x.lose(fmt.Sprintf("more than %d paths changed at once", maxPending))
	default:
		x.pending[path] = x.pending[path] || left
	}
}

// appeared watches a directory that is new here, and notes what is in it already.
func (x *Watch) appeared(path string) error {
	if CheckPath(path) != nil {
		return nil
	}
	d, err := x.workspace.walk(strings.Split(path, "/"))
	if err != nil {
		return ignoreVanished(err)
	}
	defer d.close()
	return x.add(d, path+"/", strings.Count(path, "/")+2)
}

// ignoreVanished is nil for what is gone already, or may not be looked into: the event of its
// end follows, or nobody can see in it what happens.
func ignoreVanished(err error) error {
	if vanished(err) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return failed("", "watching the workspace", err)
}

// add watches a directory and all below, and notes what is in them. The watch is set first, so
// that nothing can come between it and the look.
func (x *Watch) add(d directory, prefix string, level int) error {
	if len(x.dirs) >= MaxWatchedDirs {
		return errTooManyDirs
	}
	// By the open directory and not by a path, which could lead elsewhere by now.
	number, err := unix.InotifyAddWatch(x.descriptor, fmt.Sprintf("/proc/self/fd/%d", d.fd()), watchMask)
	if err != nil {
		return watchFailed(err)
	}
	x.dirs[int32(number)], x.numbers[prefix] = prefix, int32(number)
	names, err := d.file.Readdirnames(-1)
	if err != nil {
		return failed("", "watching the workspace", err)
	}
	for _, name := range names {
		path := prefix + name
		if prefix == "" && name == StagingName || slices.Contains(x.exclude, name) || CheckPath(path) != nil {
			continue
		}
		x.note(path, false)
		if level >= MaxPathDepth {
			continue
		}
		sub, err := d.openDir(name)
		if err != nil {
			continue // no directory, or none that can be looked into
		}
		err = x.add(sub, path+"/", level+1)
		sub.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// drop ends the watches of a directory that has left its place, and of those below.
func (x *Watch) drop(path string) {
	path += "/"
	for dir, number := range maps.Clone(x.numbers) {
		if strings.HasPrefix(dir, path) {
			_, _ = unix.InotifyRmWatch(x.descriptor, uint32(number)) // it may have ended by itself
			x.forget(number)
		}
	}
}

func (x *Watch) forget(number int32) {
	if dir, ok := x.dirs[number]; ok {
		delete(x.dirs, number)
		delete(x.numbers, dir)
	}
}

// look says what lies at the noted paths.
func (x *Watch) look() ([]syncwire.Change, error) {
	if x.lost != "" {
		change := syncwire.Change{Revision: x.workspace.Revision(), Resync: x.lost}
		x.lost = ""
		return []syncwire.Change{change}, nil
	}
	pending := x.pending
	x.pending = map[string]bool{}
	changes := make([]syncwire.Change, 0, len(pending))
	for _, path := range slices.Sorted(maps.Keys(pending)) {
		revision := x.workspace.Revision()
		e, err := x.at(path)
		if err != nil {
			return nil, err
		}
		if pending[path] && e.Type != syncwire.None {
			// What was below the directory is gone with it, whatever has taken its place.
			changes = append(changes, syncwire.Change{Revision: revision, Entry: &syncwire.Entry{Path: path, Type: syncwire.None}})
		}
		changes = append(changes, syncwire.Change{Revision: revision, Entry: &e})
	}
	return changes, nil
}

// at says what lies at a path; nothing, if its parent is no directory any more.
func (x *Watch) at(path string) (syncwire.Entry, error) {
	parents, name := split(path)
	d, err := x.workspace.walk(parents)
	if vanished(err) {
		return syncwire.Entry{Path: path, Type: syncwire.None}, nil
	}
	if err != nil {
		return syncwire.Entry{}, failed(path, "looking", err)
	}
	defer d.close()
	e, _, err := x.workspace.look(d, name)
	if err != nil {
		return syncwire.Entry{}, failed(path, "looking", err)
	}
	e.Path = path
	return e, nil
}
