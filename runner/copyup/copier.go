// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// queueLength bounds the files that wait for a worker; each can hold four descriptors open.
	queueLength = 128
	// leastWorkers and mostWorkers bound the workers, of which there is one for each processor of the container. Two are
	// worth it with one processor too: one reads while the other waits for the disk.
	leastWorkers = 2
	mostWorkers  = 8
)

// destination is the directory that a level is copied to. It stays open until all in it is copied, and then gets its time
// and its mode: a directory that nobody may write to is written to before.
type destination struct {
	folder folder
	// pending counts the entries that workers have, and the walk while it is in the directory.
	pending atomic.Int32
}

// job is an entry for a worker.
type job struct {
	in   *level
	name string
	link bool  // a symbolic link
	open *pair // nil for a file that has not been opened yet
}

// copier copies the entries of a walk. The walk makes the directories, the workers what is in them.
type copier struct {
	limits Limits
	tally  *tally
	root   folder
	// inherited is the set-group-ID bit of the volume, by which Kubernetes keeps new files in the volume's group.
	inherited uint32
	// linked has the files with several names in the tree, and first the path of those that are copied.
	linked map[inode]int32
	first  map[inode]string

	ctx  context.Context //nolint:containedctx // of one call of run, for the visitor's methods
	fail context.CancelCauseFunc
	jobs chan job
}

// run copies the source to the root, which is empty.
func (c *copier) run(ctx context.Context, w *walk, source folder, st unix.Statx_t) error {
	root, err := c.root.self()
	if err != nil {
		return fmt.Errorf("looking at the copy: %w", err)
	}
	c.inherited = uint32(root.Mode) & unix.S_ISGID
	top := &level{stat: st, into: &destination{}}
	if top.source, err = source.folder("."); err != nil {
		return fmt.Errorf("opening the source: %w", err)
	}
	if top.into.folder, err = c.root.folder("."); err != nil {
		top.source.close()
		return fmt.Errorf("opening the copy: %w", err)
	}
	top.into.pending.Store(1)
	c.ctx, c.fail = context.WithCancelCause(ctx)
	defer c.fail(nil)
	c.jobs = make(chan job, queueLength)
	var workers sync.WaitGroup
	for range min(max(runtime.GOMAXPROCS(0), leastWorkers), mostWorkers) {
		workers.Go(c.work)
	}
	w.visitor, w.tally = c, c.tally
	if err := w.run(c.ctx, top); err != nil {
		c.fail(err) // a worker's comes before it
	}
	close(c.jobs)
	workers.Wait()
	return context.Cause(c.ctx)
}

func (c *copier) enter(l, parent *level, name string) error {
	into, err := parent.into.folder.makeFolder(name)
	if err != nil {
		return fmt.Errorf("making the directory %q: %w", l.path, err)
	}
	l.into = &destination{folder: into}
	l.into.pending.Store(1)
	return nil
}

func (c *copier) leave(l *level) error { return c.release(l) }

// release is called when one entry is done, or the walk is.
func (c *copier) release(l *level) error {
	if l.into.pending.Add(-1) > 0 {
		return nil
	}
	defer l.source.close()
	defer l.into.folder.close()
	if c.ctx.Err() != nil {
		return nil
	}
	err := l.into.folder.touch(".", l.stat.Mtime.Sec, int64(l.stat.Mtime.Nsec))
	if err == nil {
		err = l.into.folder.chmod(c.modeOf(l))
	}
	if err != nil {
		return fmt.Errorf("finishing the directory %q: %w", l.path, err)
	}
	return nil
}

// modeOf is the source's mode without its set-ID bits. The user of the pod, who could read the source, is now its owner, and
// can read the copy too, and write to its top, which is the workspace.
func (c *copier) modeOf(l *level) uint32 {
	mode := uint32(l.stat.Mode)&(0o777|unix.S_ISVTX) | unix.S_IRUSR | unix.S_IXUSR | c.inherited
	if l.path == "" {
		mode |= unix.S_IWUSR
	}
	return mode
}

func (c *copier) entry(in *level, name string, st *unix.Statx_t) error {
	j := job{in: in, name: name, link: st.Mode&unix.S_IFMT == unix.S_IFLNK}
	if !j.link && st.Nlink > 1 && c.linked[inodeOf(st)] > 1 {
		done, err := c.again(in, name, inodeOf(st))
		if done || err != nil {
			return err
		}
		// It has to be there before its second name, so this is not left to a worker.
		if j.open, err = c.open(in, name); j.open == nil {
			return err
		}
		c.first[inodeOf(st)] = in.join(name)
	}
	in.into.pending.Add(1)
	select {
	case c.jobs <- j:
		return nil
	case <-c.ctx.Done():
		j.open.close()
		return errors.Join(context.Cause(c.ctx), c.release(in))
	}
}

// again gives a file that is copied another name, and reports whether it did.
func (c *copier) again(in *level, name string, id inode) (bool, error) {
	first, ok := c.first[id]
	if !ok {
		return false, nil
	}
	parent, err := c.descend(path.Dir(first))
	if err == nil {
		err = in.into.folder.link(parent, path.Base(first), name)
		parent.close()
	}
	switch {
	case err == nil:
		c.tally.files.Add(1)
		return true, nil
	case errors.Is(err, unix.EMLINK), errors.Is(err, unix.EPERM), errors.Is(err, unix.EOPNOTSUPP):
		return false, nil // a file system without them, or with as many as it takes: a copy of its own
	default:
		return false, fmt.Errorf("linking %q to %q: %w", in.join(name), first, err)
	}
}

// descend opens a directory of the copy, one name at a time.
func (c *copier) descend(path string) (folder, error) {
	f, err := c.root.folder(".")
	if path == "." {
		return f, err
	}
	for name := range strings.SplitSeq(path, "/") {
		if err != nil {
			return f, err
		}
		parent := f
		f, err = parent.folder(name)
		parent.close()
	}
	return f, err
}

// work does jobs until there are none, and after an error only gives back what they hold.
func (c *copier) work() {
	w := worker{copier: c, buf: make([]byte, smallBytes)}
	for j := range c.jobs {
		var err error
		switch {
		case c.ctx.Err() != nil:
			j.open.close()
		case j.link:
			err = c.symlink(j.in, j.name)
		default:
			err = w.file(j)
		}
		if err = errors.Join(err, c.release(j.in)); err != nil {
			c.fail(err)
		}
	}
}

// symlink copies a symbolic link as it is. Nothing here follows it.
func (c *copier) symlink(in *level, name string) error {
	target, err := in.source.target(name, c.limits.TargetBytes)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // deleted since
	case errors.Is(err, unix.ENAMETOOLONG):
		return longTarget(in.join(name), c.limits)
	}
	var st unix.Statx_t
	if err == nil {
		st, err = in.source.look(name)
	}
	if err == nil {
		err = in.into.folder.symlink(name, target)
	}
	if err == nil {
		err = in.into.folder.touch(name, st.Mtime.Sec, int64(st.Mtime.Nsec))
	}
	if err != nil {
		return fmt.Errorf("copying the symbolic link %q: %w", in.join(name), err)
	}
	c.tally.files.Add(1)
	return nil
}
