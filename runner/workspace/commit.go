// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// compareChunk is how much of two files is compared at once.
const compareChunk = 32 << 10

// Commit checks the batch against the tree and applies it. On an error other than
// [CodePartiallyApplied] the tree is as it was.
func (b *Batch) Commit() (Result, error) {
	if err := b.checkItself(); err != nil {
		return Result{}, err
	}
	b.workspace.committing.Lock()
	defer b.workspace.committing.Unlock()

	pending, err := b.plan()
	if err != nil {
		return Result{}, err
	}
	c := commit{Batch: b}
	for _, path := range b.deletes {
		if err := c.delete(path); err != nil {
			return Result{}, c.undo(failed(path, "deleting", err))
		}
	}
	for _, file := range pending {
		if err := c.write(file); err != nil {
			return Result{}, c.undo(failed(file.path, "writing", err))
		}
	}
	result := Result{
		Changed: c.changed, Deleted: c.deletedPaths,
		Unchanged: len(b.writes) - len(pending), Revision: b.workspace.Revision(),
	}
	if len(c.changed)+len(c.deletedPaths) > 0 {
		result.Revision = b.workspace.advance(b.staging)
	}
	return result, nil
}

// plan finds the conflicts that can be known before anything is changed, and
// returns the writes that are needed.
func (b *Batch) plan() ([]write, error) {
	for _, path := range b.deletes {
		parents, _ := split(path)
		d, err := b.workspace.walk(parents)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, failed(path, "looking up the directory", err)
		}
		if err == nil {
			d.close()
		}
	}
	deleted := b.deleted()
	pending := make([]write, 0, len(b.writes))
	for _, file := range b.writes {
		same := false
		if !deleted(file.path) {
			var err error
			if same, err = b.compare(file); err != nil {
				return nil, failed(file.path, "comparing", err)
			}
		}
		if same {
			continue
		}
		if file.executable != nil && *file.executable {
			if err := b.makeExecutable(file); err != nil {
				return nil, failed(file.path, "making executable", err)
			}
		}
		pending = append(pending, file)
	}
	return pending, nil
}

// compare tells whether the tree already has the file as the batch wants it. It
// fails when the file cannot be written where it shall be.
func (b *Batch) compare(file write) (same bool, err error) {
	parents, name := split(file.path)
	d, err := b.workspace.walk(parents)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer d.close()
	switch kind, err := d.lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case kind == unix.S_IFDIR:
		return false, unix.EISDIR
	case kind != unix.S_IFREG:
		return false, nil
	}
	current, info, err := d.openRead(name)
	if err != nil {
		// It cannot be read, or is no regular file any more: it is replaced.
		return false, nil
	}
	defer current.Close()
	if file.executable == nil && info.Mode()&0o111 != 0 {
		if err := b.makeExecutable(file); err != nil {
			return false, err
		}
	}
	if file.executable != nil && *file.executable != (info.Mode()&0o111 != 0) {
		return false, nil
	}
	staged, stagedInfo, err := b.stage.openRead(file.staged)
	if err != nil {
		return false, err
	}
	defer staged.Close()
	if stagedInfo.Size() != info.Size() {
		return false, nil
	}
	return equal(current, staged)
}

// makeExecutable changes the mode through an open file: by name, an app that puts
// a symlink in the file's place would choose what is changed.
func (b *Batch) makeExecutable(file write) error {
	f, _, err := b.stage.openRead(file.staged)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fchmod(int(f.Fd()), executableMode), f.Close())
}

// equal compares two files of the same size.
func equal(a, b *os.File) (bool, error) {
	var x, y [compareChunk]byte
	for {
		n, errA := io.ReadFull(a, x[:])
		m, errB := io.ReadFull(b, y[:])
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		for _, err := range []error{errA, errB} {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return false, err
			}
		}
		if errA != nil || errB != nil {
			return true, nil //nolint:nilerr // both ended together and all was equal
		}
	}
}

// commit is the part of a batch that changes the tree. It remembers each step.
type commit struct {
	*Batch
	steps        []step
	changed      []string
	deletedPaths []string
}

// step is one change and what takes it back. Directories are not kept open, since
// a batch may touch more of them than there are descriptors.
type step struct {
	path string
	// kept is the name in the stage under which the old thing lies; empty when
	// there was none.
	kept string
	// madeDir: the step made the directory at path.
	madeDir bool
	// lost: the old thing could not be kept, so the step cannot be undone.
	lost bool
}

// delete moves path into the stage.
func (c *commit) delete(path string) error {
	parents, name := split(path)
	d, err := c.workspace.walk(parents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.close()
	kept := fmt.Sprintf("deleted-%d", len(c.steps))
	if err := d.rename(name, c.stage, kept); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	c.steps = append(c.steps, step{path: path, kept: kept})
	c.deletedPaths = append(c.deletedPaths, path)
	return nil
}

// write renames the staged file into place, after giving what is there a second
// name in the stage. Old or new, a file is at path at every moment.
func (c *commit) write(file write) error {
	parents, name := split(file.path)
	d, err := c.walkMaking(parents)
	if err != nil {
		return err
	}
	defer d.close()
	done := step{path: file.path, kept: fmt.Sprintf("replaced-%d", len(c.steps))}
	switch err := d.link(name, c.stage, done.kept); {
	case errors.Is(err, fs.ErrNotExist):
		done.kept = ""
	case err != nil:
		// A file system without hard links, or a file of somebody else's.
		done.kept, done.lost = "", true
	}
	if err := c.stage.rename(file.staged, d, name); err != nil {
		return err
	}
	c.steps = append(c.steps, done)
	c.changed = append(c.changed, file.path)
	return nil
}

// walkMaking is walk, making the directories that are not there.
func (c *commit) walkMaking(names []string) (directory, error) {
	d, err := c.workspace.top.openDir(".")
	if err != nil {
		return directory{}, err
	}
	for i, name := range names {
		sub, made, err := d.openOrMakeDir(name, dirMode)
		d.close()
		if made {
			c.steps = append(c.steps, step{path: strings.Join(names[:i+1], "/"), madeDir: true})
		}
		if err != nil {
			return directory{}, err
		}
		d = sub
	}
	return d, nil
}

// undo takes all steps back and returns cause, or, when a step cannot be taken
// back, an error that says what remains changed.
func (c *commit) undo(cause *Error) error {
	var remain []string
	for i := len(c.steps) - 1; i >= 0; i-- {
		s := c.steps[i]
		if err := c.undoStep(s); err != nil && !s.madeDir {
			remain = append(remain, s.path)
		}
	}
	if len(remain) == 0 {
		return cause
	}
	return &Error{
		Code: CodePartiallyApplied, Path: cause.Path, Applied: remain, Err: cause.Err,
		Message: fmt.Sprintf("%s, and %d earlier changes of the batch could not be undone", cause.Message, len(remain)),
	}
}

var errNotKept = errors.New("the old file was not kept")

func (c *commit) undoStep(s step) error {
	if s.lost {
		return errNotKept
	}
	parents, name := split(s.path)
	d, err := c.workspace.walk(parents)
	if err != nil {
		return err
	}
	defer d.close()
	switch {
	case s.madeDir:
		return d.removeDir(name)
	case s.kept == "":
		return d.removeFile(name)
	default:
		return c.stage.rename(s.kept, d, name)
	}
}
