// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// Batch collects changes. It is used by one goroutine and ends with
// [Batch.Discard], whether it was committed or not.
type Batch struct {
	workspace *Workspace
	staging   directory
	name      string    // of stage, in staging
	stage     directory // of this batch alone

	entries []entry
	base    *int64
	// staged counts the bytes of files, copied ones too: a batch of copies is short
	// on the wire and would fill the volume.
	staged int64
	// uploads are the contents that were staged before, and are this batch's until it ends.
	uploads []string
	applied bool
}

// action is what an entry of a batch asks for.
type action uint8

const (
	putFile action = iota
	putSymlink
	putDir
	// remove takes away a file, a symlink or a directory that is left empty,
	// removeTree whatever is there with all below it.
	remove
	removeTree
)

// entry is one change. What it puts lies in the stage under its number.
type entry struct {
	action action
	path   string
	expect *syncwire.Entry
	// wanted is what shall be there, for puts. Its Executable counts only when
	// executable is not nil.
	wanted     syncwire.Entry
	executable *bool
}

func (e *entry) deletes() bool { return e.action == remove || e.action == removeTree }

// Result tells what a batch did.
type Result struct {
	// Revision of the workspace after the batch.
	Revision int64
	// Changed has the paths of files, symlinks and directories that are new or
	// changed, in the order of the batch.
	Changed []string
	// Deleted has the paths that were there and are no more.
	Deleted []string
	// Unchanged counts the entries that already were as asked.
	Unchanged int
}

// NewBatch begins a batch. The caller must end it with [Batch.Discard].
func (w *Workspace) NewBatch() (*Batch, error) {
	staging, err := w.staging()
	if err != nil {
		return nil, failed("", "opening the staging directory", err)
	}
	name := "batch-" + rand.Text()
	stage, _, err := staging.openOrMakeDir(name, stagingMode)
	if err != nil {
		staging.close()
		return nil, failed("", "making a staging directory", err)
	}
	return &Batch{workspace: w, staging: staging, name: name, stage: stage}, nil
}

// Discard removes what the batch still has on disk.
func (b *Batch) Discard() {
	if !b.applied {
		b.workspace.uploads.release(b.uploads, false)
	}
	b.stage.close()
	// What cannot be removed now is removed when the workspace is opened next.
	_ = b.staging.removeTree(b.name)
	b.staging.close()
}

// At makes the batch hold only while the workspace is at the revision.
func (b *Batch) At(revision int64) { b.base = &revision }

// Write adds a file. executable nil keeps the bit of the file that is replaced; a
// new file is not executable. Set-id bits are never set and are lost when a file
// that had them is replaced.
func (b *Batch) Write(path string, content []byte, executable *bool) error {
	sum := sha256.Sum256(content)
	f, err := b.File(syncwire.Frame{
		Path: path, Size: int64(len(content)), Digest: hex.EncodeToString(sum[:]), Executable: executable,
	})
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := f.Fill(bytes.NewReader(content), int64(len(content))); err != nil {
		return err
	}
	return f.Close()
}

// Stage is [Workspace.Stage].
func (b *Batch) Stage(f syncwire.Frame) (*Part, error) { return b.workspace.Stage(f) }

// Staged adds a file whose content was staged under its digest.
func (b *Batch) Staged(f syncwire.Frame) error {
	if err := b.admit(f.Path); err != nil {
		return err
	}
	if err := b.workspace.uploads.take(f, b.stage, newName(len(b.entries))); err != nil {
		return err
	}
	b.uploads = append(b.uploads, f.Digest)
	b.file(f)
	return nil
}

// file adds an entry for a file whose content lies in the stage.
func (b *Batch) file(f syncwire.Frame) {
	b.entries = append(b.entries, entry{
		action: putFile, path: f.Path, expect: f.Expect, executable: f.Executable,
		wanted: syncwire.Entry{
			Type: syncwire.File, Size: f.Size, Digest: f.Digest, Executable: f.Executable != nil && *f.Executable,
		},
	})
}

// Symlink adds a symlink. What is in its place is replaced, unless it is a
// directory.
func (b *Batch) Symlink(path, target string, expect *syncwire.Entry) error {
	if err := b.admit(path); err != nil {
		return err
	}
	if err := CheckTarget(path, target); err != nil {
		return err
	}
	if err := b.stage.symlink(newName(len(b.entries)), target); err != nil {
		return failed(path, "staging the symlink", err)
	}
	b.entries = append(b.entries, entry{
		action: putSymlink, path: path, expect: expect,
		wanted: syncwire.Entry{Type: syncwire.Symlink, Target: target},
	})
	return nil
}

// Dir adds a directory. The directories that a file needs come by themselves.
func (b *Batch) Dir(path string, expect *syncwire.Entry) error {
	if err := b.admit(path); err != nil {
		return err
	}
	b.entries = append(b.entries, entry{
		action: putDir, path: path, expect: expect, wanted: syncwire.Entry{Type: syncwire.Dir},
	})
	return nil
}

// Delete adds a path to remove, with all below it. A path that is not there is
// none to remove. Deletes are applied before writes, so that a batch can replace
// a directory by a file and the reverse.
func (b *Batch) Delete(path string, expect *syncwire.Entry) error {
	return b.delete(path, expect, removeTree)
}

// Remove is Delete for a file, a symlink, or a directory that the batch leaves
// empty; a directory with more in it is a conflict.
func (b *Batch) Remove(path string, expect *syncwire.Entry) error {
	return b.delete(path, expect, remove)
}

func (b *Batch) delete(path string, expect *syncwire.Entry, how action) error {
	if err := b.admit(path); err != nil {
		return err
	}
	b.entries = append(b.entries, entry{action: how, path: path, expect: expect})
	return nil
}

// admit checks what holds for every entry.
func (b *Batch) admit(path string) error {
	if limit := b.workspace.limits.Files; len(b.entries) >= limit {
		return &Error{
			Code:    CodeTooManyFiles,
			Message: fmt.Sprintf("the batch has more entries than the limit of %d files and deletes", limit),
		}
	}
	return CheckPath(path)
}

// newName and oldName are what an entry puts and what it replaced, in the stage.
func newName(n int) string { return "new-" + strconv.Itoa(n) }
func oldName(n int) string { return "old-" + strconv.Itoa(n) }

// checkItself refuses a batch that could not hold on any tree.
func (b *Batch) checkItself() error {
	puts := make(map[string]action, len(b.entries))
	deletes := make(map[string]bool)
	for i := range b.entries {
		e := &b.entries[i]
		if e.deletes() {
			if deletes[e.path] {
				return &Error{Code: CodeInvalidBatch, Path: e.path, Message: "the batch deletes the path twice"}
			}
			deletes[e.path] = true
			continue
		}
		if _, twice := puts[e.path]; twice {
			return &Error{Code: CodeInvalidBatch, Path: e.path, Message: "the batch has the file twice"}
		}
		puts[e.path] = e.action
	}
	for path := range puts {
		for parent := range ancestors(path) {
			if kind, put := puts[parent]; put && kind != putDir {
				return &Error{
					Code: CodeInvalidBatch, Path: path,
					Message: fmt.Sprintf("the batch also has %q as a file, so it cannot be a directory", parent),
				}
			}
		}
	}
	return nil
}

// ancestors yields the directories of a path, the topmost first.
func ancestors(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; ; i++ {
			n := strings.IndexByte(path[i:], '/')
			if n < 0 {
				return
			}
			if i += n; !yield(path[:i]) {
				return
			}
		}
	}
}
