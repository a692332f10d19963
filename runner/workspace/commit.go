// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// Commit checks the batch against the tree and applies it. On an error other than
// [CodePartiallyApplied] the tree is as it was. journal.go has the order of steps.
func (b *Batch) Commit() (Result, error) {
	if err := b.checkItself(); err != nil {
		return Result{}, err
	}
	w := b.workspace
	w.committing.Lock()
	defer w.committing.Unlock()

	revision := w.Revision()
	if b.base != nil && *b.base != revision {
		return Result{}, &Error{
			Code: CodeRevisionMismatch, Revision: revision,
			Message: fmt.Sprintf("the batch is for revision %d, and the workspace is at revision %d", *b.base, revision),
		}
	}
	p, err := b.plan()
	if err != nil {
		return Result{}, err
	}
	if len(p.ops) == 0 {
		b.done()
		return Result{Revision: revision, Unchanged: p.unchanged}, nil
	}
	if err := w.admit(p.growth); err != nil {
		return Result{}, err
	}
	revision++
	if err := b.decide(revision, p.ops); err != nil {
		return Result{}, failed("", "writing the journal", err)
	}
	c := commit{workspace: w, stage: b.stage, ops: p.ops}
	staged := c.large(b.entries)
	if err := c.run(); err != nil {
		return Result{}, b.takeBack(&c, revision, err)
	}
	err = w.advance(b.staging, revision)
	if err == nil {
		err = c.sync(b.staging)
	}
	if err != nil {
		return Result{}, b.takeBack(&c, revision, failed("", "syncing the volume", err))
	}
	// Failing here leaves a batch that is applied once more, which changes nothing.
	_ = b.staging.rename(commitName, b.staging, b.name)
	w.used.grow(p.growth)
	b.done()
	c.rememberLarge(b.entries, staged)
	return c.result(b.entries, p.unchanged, revision), nil
}

// done lets go of the content that was staged before: it is in the workspace now. Its other name has
// to go before anybody asks when the file was changed last.
func (b *Batch) done() {
	b.applied = true
	b.workspace.uploads.release(b.uploads, true)
}

// decide makes the batch one that is applied whatever happens.
func (b *Batch) decide(revision int64, ops []op) error {
	text, err := encodeJournal(revision, ops)
	if err != nil {
		return err
	}
	var files []string
	for _, o := range ops {
		if o.Kind == opPut && b.entries[o.N].action == putFile {
			files = append(files, newName(o.N))
		}
	}
	if err := b.workspace.inParallel(files, b.stage.syncFile); err != nil {
		return err
	}
	if err := b.stage.save(journalFile, text); err != nil {
		return err
	}
	if err := b.stage.sync(); err != nil {
		return err
	}
	// One that is over and could not be removed; committing is locked.
	if err := b.staging.drop(commitName); err != nil {
		return err
	}
	if err := b.staging.rename(b.name, b.staging, commitName); err != nil {
		return err
	}
	if err := b.staging.sync(); err != nil {
		// Not decided after all: a runner that is started now must not apply it.
		return errors.Join(err, b.staging.rename(commitName, b.staging, b.name))
	}
	return nil
}

// takeBack undoes what was done of a batch, and returns the cause, or an error
// that says what remains changed.
func (b *Batch) takeBack(c *commit, revision int64, cause error) error {
	known := failed("", "applying", cause)
	// Without the new name a runner that is started now would apply what is being
	// taken back. Nothing better is left than to go on.
	_ = b.staging.rename(commitName, b.staging, undoName)
	_ = b.staging.sync()
	remain := c.undo()
	var err error
	if b.workspace.Revision() >= revision {
		err = b.workspace.advance(b.staging, revision-1)
	}
	if err = errors.Join(err, c.sync(b.staging)); err == nil {
		_ = b.staging.rename(undoName, b.staging, b.name)
	}
	if len(remain) == 0 {
		return known
	}
	return &Error{
		Code: CodePartiallyApplied, Path: known.Path, Applied: remain, Err: known.Err,
		Message: fmt.Sprintf("%s, and %d earlier changes of the batch could not be undone", known.Message, len(remain)),
	}
}

// commit applies operations, or takes them back. Both can be repeated from any
// point.
type commit struct {
	workspace *Workspace
	stage     directory
	ops       []op
	// deleted has the N of operations that found something to delete.
	deleted map[int]bool
	at      walker
}

// run applies all operations, in order.
func (c *commit) run() error {
	c.at.workspace, c.deleted = c.workspace, map[int]bool{}
	defer c.at.close()
	for _, o := range c.ops {
		if err := c.do(o); err != nil {
			return failed(o.Path, doing[o.Kind], err)
		}
	}
	return nil
}

var doing = map[opKind]string{
	opDelete: "deleting", opRemoveDir: "deleting the directory", opMakeDir: "making the directory", opPut: "writing",
}

func (c *commit) do(o op) error {
	parents, name := split(o.Path)
	d, err := c.at.walk(parents)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && (o.Kind == opDelete || o.Kind == opRemoveDir) {
			return nil
		}
		return err
	}
	switch o.Kind {
	case opDelete:
		return c.delete(o, d, name)
	case opRemoveDir:
		err := d.removeDir(name)
		if errors.Is(err, unix.ENOTEMPTY) {
			return raced(o, "the directory got something in it while the batch was applied")
		}
		c.deleted[o.N] = err == nil
		return ignore(err, fs.ErrNotExist)
	case opMakeDir:
		sub, _, err := d.openOrMakeDir(name, dirMode)
		if err == nil {
			sub.close()
		}
		return err
	default:
		return c.put(o, d, name)
	}
}

// delete moves what is there into the stage.
func (c *commit) delete(o op, d directory, name string) error {
	done, err := c.stage.exists(oldName(o.N))
	if done || err != nil {
		return err
	}
	if err := d.rename(name, c.stage, oldName(o.N)); err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	c.deleted[o.N] = true
	return c.unchanged(o)
}

// put renames the staged thing into place, after giving what is there a second
// name in the stage. Old or new, a file is at path at every moment.
func (c *commit) put(o op, d directory, name string) error {
	waits, err := c.stage.exists(newName(o.N))
	if !waits || err != nil {
		return err // it was put before
	}
	if !o.Had {
		err := c.stage.renameNew(newName(o.N), d, name)
		if errors.Is(err, fs.ErrExist) {
			return raced(o, "something appeared there while the batch was applied")
		}
		return err
	}
	switch err := d.link(name, c.stage, oldName(o.N)); {
	case err == nil, errors.Is(err, fs.ErrExist):
	case errors.Is(err, fs.ErrNotExist):
		if o.seen != nil {
			return raced(o, "it vanished while the batch was applied")
		}
	default:
		// A file system without hard links, or a file of somebody else's: for a
		// moment there is no file. A directory was none when the batch was planned.
		if st, err := d.lstat(name); err != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return raced(o, "a directory appeared there while the batch was applied")
		}
		if err := d.rename(name, c.stage, oldName(o.N)); err != nil {
			return err
		}
	}
	if err := c.unchanged(o); err != nil {
		return err
	}
	return c.stage.rename(newName(o.N), d, name)
}

// unchanged fails when what was kept is not what the plan saw: the app has changed
// it since, and the client would lose that without knowing.
func (c *commit) unchanged(o op) error {
	if o.seen == nil {
		return nil
	}
	st, err := c.stage.lstat(oldName(o.N))
	if err != nil {
		return err
	}
	if st.Ino != o.seen.Ino || st.Size != o.seen.Size || st.Mtim != o.seen.Mtim || st.Mode != o.seen.Mode {
		return raced(o, "it changed while the batch was applied")
	}
	return nil
}

// raced is a conflict that came up after the plan.
func raced(o op, reason string) error {
	return conflictError([]syncwire.Conflict{{Path: o.Path, Reason: reason}})
}

// undo takes all operations back, done or not, and returns the paths of those that
// it could not take back.
func (c *commit) undo() []string {
	c.at.workspace = c.workspace
	defer c.at.close()
	var remain []string
	for i := len(c.ops) - 1; i >= 0; i-- {
		o := c.ops[i]
		parents, name := split(o.Path)
		d, err := c.at.walk(parents)
		if err == nil {
			err = c.undoOne(o, d, name)
		} else if o.Kind == opMakeDir {
			err = nil
		}
		if err != nil && c.wasDone(o) {
			remain = append(remain, o.Path)
		}
	}
	return remain
}

func (c *commit) undoOne(o op, d directory, name string) error {
	switch o.Kind {
	case opDelete:
		return ignore(c.stage.renameNew(oldName(o.N), d, name), fs.ErrNotExist)
	case opRemoveDir:
		sub, _, err := d.openOrMakeDir(name, dirMode)
		if err == nil {
			sub.close()
		}
		return err
	case opMakeDir:
		// One that has something in it is the app's by now.
		_ = d.removeDir(name)
		return nil
	default:
		if o.Had {
			// Without the old thing nothing was changed, or it is back already.
			return ignore(c.stage.rename(oldName(o.N), d, name), fs.ErrNotExist)
		}
		if waits, err := c.stage.exists(newName(o.N)); waits || err != nil {
			return err
		}
		// Not deleted: doing this once more must find that it is done.
		return ignore(d.rename(name, c.stage, newName(o.N)), fs.ErrNotExist)
	}
}

// wasDone tells, as far as the stage shows it, whether an operation took place.
func (c *commit) wasDone(o op) bool {
	switch o.Kind {
	case opDelete:
		kept, err := c.stage.exists(oldName(o.N))
		return kept || err != nil
	case opPut:
		waits, err := c.stage.exists(newName(o.N))
		return !waits || err != nil
	default:
		return c.deleted[o.N]
	}
}

// sync makes the changes outlast a loss of power.
func (c *commit) sync(staging directory) error {
	seen := map[string]bool{}
	var dirs []string
	for _, o := range c.ops {
		dir := o.Path[:max(0, len(o.Path)-len(lastName(o.Path))-1)]
		if !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	err := c.workspace.inParallel(dirs, func(dir string) error {
		var names []string
		if dir != "" {
			parents, name := split(dir)
			names = append(parents, name)
		}
		d, err := c.workspace.walk(names)
		if err != nil {
			return nil // it is gone, or in other hands: nothing of ours to sync
		}
		defer d.close()
		return d.sync()
	})
	return errors.Join(err, staging.sync())
}

// result says what was done, in the order of the batch.
func (c *commit) result(entries []entry, unchanged int, revision int64) Result {
	r := Result{Revision: revision, Unchanged: unchanged}
	put := map[int]bool{}
	for _, o := range c.ops {
		if o.Kind == opPut || o.named {
			put[o.N] = true
		}
	}
	for i := range entries {
		switch {
		case put[i]:
			r.Changed = append(r.Changed, entries[i].path)
		case c.deleted[i]:
			r.Deleted = append(r.Deleted, entries[i].path)
		}
	}
	return r
}

// syncWorkers is how many syncs wait at once: a file system takes many of them in
// one turn of its own journal.
const syncWorkers = 8

// inParallel calls do for each name and returns one of the errors.
func (w *Workspace) inParallel(names []string, do func(string) error) error {
	if len(names) == 1 || w.top.before != nil { // a test that crashes here does so in one goroutine
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		return nil
	}
	var (
		next    atomic.Int64
		failure atomic.Pointer[error]
		working sync.WaitGroup
	)
	for range min(syncWorkers, len(names)) {
		working.Go(func() {
			for failure.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(names) {
					return
				}
				if err := do(names[i]); err != nil {
					failure.Store(&err)
				}
			}
		})
	}
	working.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}

// ignore returns nil for one kind of error.
func ignore(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

func lastName(path string) string {
	_, name := split(path)
	return name
}
