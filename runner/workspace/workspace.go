// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

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
	// StateName is a directory in the staging directory where the runner keeps what
	// else outlives it. It is made by whoever uses it.
	StateName = "state"
	// CacheName is a directory in the staging directory for what the app's package managers have
	// downloaded: it outlives the pod, and no sync, listing or limit of the workspace sees it.
	CacheName = "cache"
	// ignoreFile keeps git from showing the staging directory.
	ignoreFile = ".gitignore"

	// maxRevision is the greatest integer that every JSON client reads exactly.
	// A revision beyond it in revisionFile was not written by a runner.
	maxRevision = 1<<53 - 1
)

// Limits bound batches and the workspace.
type Limits struct {
	// Files bounds the entries of a batch, writes and deletes together.
	// Default 10,000.
	Files int
	// FileBytes bounds the content of one file. Default 16 GiB. A file of more than 1 GiB, or than
	// FileBytes, that the app made is listed without a digest.
	FileBytes int64
	// BatchBytes bounds the content of all files of a batch, copied content too, and staged content
	// not. Default 2 GiB.
	BatchBytes int64
	// TotalFiles and TotalBytes bound what a batch may make of the workspace. The app
	// is not bound by them. Default 250,000 files and directories, and 64 GiB.
	TotalFiles, TotalBytes int64
}

// DefaultLimits returns the limits that apply unless the operator sets others.
func DefaultLimits() Limits {
	return Limits{
		Files: 10_000, FileBytes: 16 << 30, BatchBytes: 2 << 30,
		TotalFiles: 250_000, TotalBytes: 64 << 30,
	}
}

// Workspace is the directory that the app runs in. Batches may be filled from any
// goroutine; they are committed one after the other.
type Workspace struct {
	limits Limits
	top    directory
	// home has the staging directory: the top, or that of the volume which the workspace is a directory of.
	home    directory
	digests digests
	used    used
	uploads uploads
	// hashed bounds a file that is read for its digest.
	hashed int64
	large  large

	committing sync.Mutex
	revision   atomic.Int64
	recovery   Recovery
}

// Open opens the workspace at path, which must exist, finishes a batch that an
// earlier runner left unfinished, and removes what else it left.
func Open(path string, limits Limits) (*Workspace, error) {
	return openWith(path, limits, nil)
}

// openWith is Open with a function that is called before each change of the disk.
func openWith(path string, limits Limits, before func(step string)) (*Workspace, error) {
	top, err := openTop(path)
	if err != nil {
		return nil, fmt.Errorf("opening the workspace: %w", err)
	}
	top.before = before
	inVolume, err := top.exists(TreeName)
	if err == nil && inVolume {
		err = ErrInVolume
	}
	var w *Workspace
	if err == nil {
		w, err = openIn(top, top, limits)
	}
	if err != nil {
		top.close()
		return nil, err
	}
	return w, nil
}

// openIn opens the workspace at top, whose staging directory is in home. On an error both stay open.
func openIn(home, top directory, limits Limits) (*Workspace, error) {
	w := &Workspace{limits: limits, home: home, top: top, digests: digests{known: map[inode]known{}}, hashed: min(hashedBytes, limits.FileBytes)}
	w.uploads.workspace, w.uploads.known = w, map[string]*upload{}
	if err := w.recover(); err != nil {
		return nil, fmt.Errorf("preparing the staging directory of the workspace: %w", err)
	}
	return w, nil
}

// Recovered tells what Open found of an earlier runner.
func (w *Workspace) Recovered() Recovery { return w.recovery }

// Close releases the workspace. Batches must not be used after it.
func (w *Workspace) Close() {
	w.uploads.close()
	w.top.close()
	if w.home.file != w.top.file {
		w.home.close()
	}
}

// Revision counts the batches that changed something, over all runners that
// worked on this volume. The app can write the file that keeps it, so it is
// a help for clients, and nothing is decided by it.
func (w *Workspace) Revision() int64 { return w.revision.Load() }

// staging opens the staging directory. The app may have deleted it (git clean) or
// put something else in its place, so each batch opens it anew.
func (w *Workspace) staging() (directory, error) {
	d, made, err := w.home.openOrMakeDir(StagingName, stagingMode)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		if err = w.home.removeFile(StagingName); err == nil {
			d, made, err = w.home.openOrMakeDir(StagingName, stagingMode)
		}
	}
	if err != nil {
		return directory{}, err
	}
	if made {
		if err := d.save(ignoreFile, []byte("*\n")); err != nil && !errors.Is(err, fs.ErrExist) {
			d.close()
			return directory{}, err
		}
	}
	return d, nil
}

// recover reads the revision, finishes an unfinished batch, and removes all else
// from the staging directory.
func (w *Workspace) recover() error {
	staging, err := w.staging()
	if err != nil {
		return err
	}
	defer staging.close()
	w.revision.Store(readRevision(staging))
	if w.recovery, err = w.recoverBatch(staging); err != nil {
		return err
	}
	names, err := staging.file.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == revisionFile || name == ignoreFile || name == StateName || name == CacheName || name == UploadsName {
			continue
		}
		if err := staging.removeTree(name); err != nil {
			return err
		}
	}
	// Behind the batches that were not decided: what they had taken has one name again.
	if err := w.uploads.recover(); err != nil {
		return err
	}
	if there, err := staging.exists(StateName); err == nil && there {
		w.large.load(w)
	}
	return nil
}

// readRevision returns 0 for anything that is not a revision.
func readRevision(staging directory) int64 {
	f, err := staging.openRead(revisionFile)
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

// advance writes the revision down.
func (w *Workspace) advance(staging directory, revision int64) error {
	temporary := revisionFile + "." + rand.Text()
	if err := staging.save(temporary, strconv.AppendInt(nil, revision, 10)); err != nil {
		return err
	}
	if err := staging.rename(temporary, staging, revisionFile); err != nil {
		return err
	}
	w.revision.Store(revision)
	return nil
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
