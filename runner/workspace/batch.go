// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Batch collects changes. It is used by one goroutine and ends with
// [Batch.Discard], whether it was committed or not.
type Batch struct {
	workspace *Workspace
	staging   directory
	name      string    // of stage, in staging
	stage     directory // of this batch alone

	writes  []write
	deletes []string
}

// write is one staged file.
type write struct {
	path       string
	staged     string // its name in the stage
	executable *bool
}

// Result tells what a batch did.
type Result struct {
	// Revision of the workspace after the batch.
	Revision int64
	// Changed has the paths of files whose content or executable bit changed, in
	// the order of the batch.
	Changed []string
	// Deleted has the paths that were there and are no more.
	Deleted []string
	// Unchanged counts the files that already were as asked.
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
	b.stage.close()
	// What cannot be removed now is removed when the workspace is opened next.
	_ = b.staging.removeTree(b.name)
	b.staging.close()
}

// Write adds a file. executable nil keeps the bit of the file that is replaced; a
// new file is not executable. Set-id bits are never set and are lost when a file
// that had them is replaced.
func (b *Batch) Write(path string, content []byte, executable *bool) error {
	if err := b.admit(path); err != nil {
		return err
	}
	if limit := b.workspace.limits.FileBytes; int64(len(content)) > limit {
		return &Error{
			Code: CodeFileTooLarge, Path: path,
			Message: fmt.Sprintf("the file has %d bytes; the limit is %d bytes a file", len(content), limit),
		}
	}
	staged := strconv.Itoa(len(b.writes))
	if err := b.stage.create(staged, content); err != nil {
		return failed(path, "staging the file", err)
	}
	b.writes = append(b.writes, write{path: path, staged: staged, executable: executable})
	return nil
}

// Delete adds a path to remove, with all below it. A path that is not there is
// none to remove. Deletes are applied before writes, so that a batch can replace
// a directory by a file and the reverse.
func (b *Batch) Delete(path string) error {
	if err := b.admit(path); err != nil {
		return err
	}
	b.deletes = append(b.deletes, path)
	return nil
}

// admit checks what holds for every entry.
func (b *Batch) admit(path string) error {
	if limit := b.workspace.limits.Files; len(b.writes)+len(b.deletes) >= limit {
		return &Error{
			Code:    CodeTooManyFiles,
			Message: fmt.Sprintf("the batch has more entries than the limit of %d files and deletes", limit),
		}
	}
	return CheckPath(path)
}

// checkItself refuses a batch that could not hold on any tree.
func (b *Batch) checkItself() error {
	files := make(map[string]bool, len(b.writes))
	for _, file := range b.writes {
		if files[file.path] {
			return &Error{Code: CodeInvalidBatch, Path: file.path, Message: "the batch has the file twice"}
		}
		files[file.path] = true
	}
	for _, file := range b.writes {
		for parent := range ancestors(file.path) {
			if files[parent] {
				return &Error{
					Code: CodeInvalidBatch, Path: file.path,
					Message: fmt.Sprintf("the batch also has %q as a file, so it cannot be a directory", parent),
				}
			}
		}
	}
	return nil
}

// deleted returns a test for paths that the batch deletes, themselves or by an
// ancestor.
func (b *Batch) deleted() func(path string) bool {
	set := make(map[string]bool, len(b.deletes))
	for _, path := range b.deletes {
		set[path] = true
	}
	return func(path string) bool {
		if set[path] {
			return true
		}
		return slices.ContainsFunc(slices.Collect(ancestors(path)), func(p string) bool { return set[p] })
	}
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
