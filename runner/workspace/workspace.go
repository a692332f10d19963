// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	dirMode        = 0o755
	fileMode       = 0o644
	executableMode = 0o755
	stagingMode    = 0o700

	// revisionFile keeps the revision in the staging directory across restarts of
	// the runner.
	revisionFile = "revision"
	// ignoreFile keeps git from showing the staging directory.
	ignoreFile = ".gitignore"

	// maxRevision is the greatest integer that every JSON client reads exactly.
	// A revision beyond it in revisionFile was not written by a runner.
	maxRevision = 1<<53 - 1
)

// Limits bound one batch.
type Limits struct {
	// Files bounds the entries of a batch, writes and deletes together.
	// Default 10,000.
	Files int
	// FileBytes bounds the content of one file. Default 16 MiB.
	FileBytes int64
}

// DefaultLimits returns the limits that apply unless the operator sets others.
func DefaultLimits() Limits {
	return Limits{Files: 10_000, FileBytes: 16 << 20}
}

// Workspace is the directory that the app runs in. Batches may be filled from any
// goroutine; they are committed one after the other.
type Workspace struct {
	limits Limits
	top    directory

	committing sync.Mutex
	revision   atomic.Int64
}

// Open opens the workspace at path, which must exist, and removes what an earlier
// runner left in its staging directory.
func Open(path string, limits Limits) (*Workspace, error) {
	top, err := openTop(path)
	if err != nil {
		return nil, fmt.Errorf("opening the workspace: %w", err)
	}
	w := &Workspace{limits: limits, top: top}
	if err := w.recover(); err != nil {
		top.close()
		return nil, fmt.Errorf("preparing the staging directory of the workspace: %w", err)
	}
	return w, nil
}

// Close releases the workspace. Batches must not be used after it.
func (w *Workspace) Close() { w.top.close() }

// Revision counts the batches that changed something, over all runners that
// worked on this volume. The app can write the file that keeps it, so it is
// a help for clients, and nothing is decided by it.
func (w *Workspace) Revision() int64 { return w.revision.Load() }

// staging opens the staging directory. The app may have deleted it (git clean) or
// put something else in its place, so each batch opens it anew.
func (w *Workspace) staging() (directory, error) {
	d, made, err := w.top.openOrMakeDir(StagingName, stagingMode)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		if err = w.top.removeFile(StagingName); err == nil {
			d, made, err = w.top.openOrMakeDir(StagingName, stagingMode)
		}
	}
	if err != nil {
		return directory{}, err
	}
	if made {
		if err := d.create(ignoreFile, []byte("*\n")); err != nil && !errors.Is(err, fs.ErrExist) {
			d.close()
			return directory{}, err
		}
	}
	return d, nil
}

// recover reads the revision and removes all else from the staging directory.
func (w *Workspace) recover() error {
	staging, err := w.staging()
	if err != nil {
		return err
	}
	defer staging.close()
	names, err := staging.file.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == revisionFile || name == ignoreFile {
			continue
		}
		if err := staging.removeTree(name); err != nil {
			return err
		}
	}
	w.revision.Store(readRevision(staging))
	return nil
}

// readRevision returns 0 for anything that is not a revision.
func readRevision(staging directory) int64 {
	f, _, err := staging.openRead(revisionFile)
	if err != nil {
		return 0
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 32)) //nolint:forbidigo // a revision has 19 digits at most
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 || n > maxRevision {
		return 0
	}
	return n
}

// advance counts a batch. Not being able to write the number down is no reason to
// call an applied batch failed.
func (w *Workspace) advance(staging directory) int64 {
	n := w.revision.Add(1)
	temporary := revisionFile + "." + rand.Text()
	if staging.create(temporary, strconv.AppendInt(nil, n, 10)) == nil {
		_ = staging.rename(temporary, staging, revisionFile)
	}
	return n
}

// walk opens the directory with the given names below the top.
func (w *Workspace) walk(names []string) (directory, error) {
	d, err := w.top.openDir(".")
	for _, name := range names {
		if err != nil {
			return directory{}, err
		}
		parent := d
		d, err = parent.openDir(name)
		parent.close()
	}
	return d, err
}

// split returns the names of the parents of a checked path, and its last name.
func split(path string) (parents []string, name string) {
	names := strings.Split(path, "/")
	return names[:len(names)-1], names[len(names)-1]
}
