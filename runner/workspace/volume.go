// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// A volume can have the workspace in a directory, and what is the runner's beside it:
//
//	.sandbar             logs, staged files, caches; as at the top of a workspace without a volume
//	.sandbar-workspace   the workspace, which the app sees as its working directory, by a mount of its own
//
// Then nothing that the runner writes wakes a watcher of the app, which may print what it sees, which the
// runner writes down. The runner reaches both by one mount of the volume: Linux renames a staged file into
// the workspace only within a mount, even if two are of one file system.

// TreeName is the directory of a volume that has the workspace.
const TreeName = ".sandbar-workspace"

// treeMode is for a volume where no mount has made the directory.
const treeMode = 0o755

// lostAndFound is at the top of ext4, and root's.
const lostAndFound = "lost+found"

// ErrInVolume means that a directory is a volume with a workspace, and not a workspace: to take it for one would
// show its files one level too low, and all others as deleted.
var ErrInVolume = errors.New("the workspace is in " + TreeName + " of this directory, which is a volume")

// OpenVolume is [Open] for the workspace of the volume at path. It moves into the workspace what an earlier runner,
// without a volume, had at its top.
func OpenVolume(path string, limits Limits) (*Workspace, error) {
	return openVolumeWith(path, limits, nil)
}

func openVolumeWith(path string, limits Limits, before func(step string)) (*Workspace, error) {
	home, err := openTop(path)
	if err != nil {
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	home.before = before
	top, _, err := home.openOrMakeDir(TreeName, treeMode)
	if err != nil {
		home.close()
		return nil, fmt.Errorf("opening the workspace of the volume: %w", err)
	}
	moved, err := gather(home, top)
	if err != nil {
		top.close()
		home.close()
		return nil, fmt.Errorf("moving the workspace to %s: %w", TreeName, err)
	}
	w, err := openIn(home, top, limits)
	if err != nil {
		top.close()
		home.close()
		return nil, err
	}
	w.recovery.Moved = moved
	return w, nil
}

// gather moves what lies beside the workspace into it, each thing by one rename, so that a runner that dies
// between two has the next one go on. It is done before a batch is recovered, whose paths are relative to the
// top. What the workspace has already stays where it is: it is not the workspace's.
func gather(home, top directory) (moved int, err error) {
	names, err := home.names()
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if slices.Contains([]string{StagingName, TreeName, lostAndFound}, name) {
			continue
		}
		switch err := home.renameNew(name, top, name); {
		case err == nil:
			moved++
		case errors.Is(err, fs.ErrExist):
		default:
			return moved, fmt.Errorf("%q: %w", name, err)
		}
	}
	if moved == 0 {
		return 0, nil
	}
	return moved, errors.Join(top.sync(), home.sync())
}

// IsTree reports whether dir is the workspace of the volume, by another mount.
func (w *Workspace) IsTree(dir string) (bool, error) {
	theirs, err := os.Stat(dir)
	if err != nil {
		return false, err
	}
	ours, err := w.top.file.Stat()
	return err == nil && os.SameFile(theirs, ours), err
}
