// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

const (
	// stagingName is where the files are copied to, in the runner's directory of the volume. A runner that finds it there
	// removes it.
	stagingName = "copy-up"
	// markerName is the marker, in the directory that the runner keeps of its own. newMarkerName is one that is being written.
	markerName    = "copied"
	newMarkerName = "copied.new"
	// lostAndFound is at the top of a fresh ext4 volume, and root's.
	lostAndFound = "lost+found"
)

// target is the volume.
type target struct {
	top  folder
	home folder // .sandbar, once the copy is prepared
	id   inode  // of top
}

// openTarget opens a volume.
func openTarget(path string, before func(step string)) (*target, error) {
	top, err := openFolder(path, before)
	if err != nil {
		return nil, fmt.Errorf("opening the volume %s: %w", path, err)
	}
	st, err := top.self()
	if err != nil {
		top.close()
		return nil, fmt.Errorf("looking at the volume %s: %w", path, err)
	}
	return &target{top: top, home: folder{fd: -1}, id: inodeOf(&st)}, nil
}

func (t *target) close() {
	t.home.close()
	t.top.close()
}

// marked reports whether the volume has a copy that is complete. It changes nothing.
func (t *target) marked() (bool, error) {
	st, err := t.lookFor(workspace.StagingName, workspace.StateName, markerName)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for the marker of the volume: %w", err)
	}
	return st.Mode&unix.S_IFMT == unix.S_IFREG, nil
}

// lookFor returns what the last name is, in the directories before it.
func (t *target) lookFor(home, state, name string) (st unix.Statx_t, err error) {
	h, err := t.top.folder(home)
	if err != nil {
		return st, err
	}
	defer h.close()
	s, err := h.folder(state)
	if err != nil {
		return st, err
	}
	defer s.close()
	return s.look(name)
}

// prepare opens the runner's directory of the volume, and makes it if it is missing. Two copies at a time would remove each
// other's files, and one could mark those of the other: a pod that was given up may still run when the next one begins. Some
// networks' file systems know no lock of a directory, and do without.
func (t *target) prepare() (err error) {
	if t.home, err = t.top.openOrMake(workspace.StagingName); err != nil {
		return fmt.Errorf("opening %s of the volume: %w", workspace.StagingName, err)
	}
	if errors.Is(unix.Flock(t.home.fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return refuse(copywire.CopyFailed, "another copy to the volume is in progress")
	}
	return nil
}

// empty returns an error if the volume has files that are not the runner's.
func (t *target) empty() error {
	return t.top.each(func(name string) error {
		if name == workspace.StagingName || name == lostAndFound {
			return nil
		}
		if name != workspace.TreeName {
			return notEmpty(name)
		}
		// The kubelet makes it for a mount by subPath.
		tree, err := t.top.folder(name)
		if err != nil {
			return fmt.Errorf("opening %s of the volume: %w", name, err)
		}
		defer tree.close()
		return tree.each(func(child string) error { return notEmpty(name + "/" + child) })
	})
}

func notEmpty(name string) error {
	return refuse(copywire.TargetNotEmpty,
		"the volume has files that no copy has brought, %q among them: none was changed; use an empty volume, or remove them", name)
}

// begin removes what a former try has left, and nothing else, and makes the directory for the copy.
func (t *target) begin(ctx context.Context, limits Limits) (folder, error) {
	if err := t.home.remove(ctx, stagingName, limits.Depth+1); err != nil {
		return folder{}, fmt.Errorf("removing what a former copy has left: %w", err)
	}
	staging, err := t.home.makeFolder(stagingName)
	if err != nil {
		return folder{}, fmt.Errorf("making %s/%s on the volume: %w", workspace.StagingName, stagingName, err)
	}
	return staging, nil
}

// commit decides the copy: what is in staging is complete and on disk once the marker is there, and a copy that dies after
// that is brought to its end by the next one.
func (t *target) commit(ctx context.Context, staging folder, note []byte) error {
	if err := staging.syncAll(); err != nil {
		return fmt.Errorf("writing the files to disk: %w", err)
	}
	state, err := t.home.openOrMake(workspace.StateName)
	if err != nil {
		return fmt.Errorf("opening %s/%s of the volume: %w", workspace.StagingName, workspace.StateName, err)
	}
	defer state.close()
	err = state.remove(ctx, newMarkerName, 1)
	if err == nil {
		err = state.save(newMarkerName, note)
	}
	if err == nil {
		err = state.rename(newMarkerName, state, markerName)
	}
	for _, f := range []folder{state, t.home, t.top} {
		if err == nil {
			err = f.sync()
		}
	}
	if err != nil {
		return fmt.Errorf("marking the volume: %w", err)
	}
	return nil
}

// place gives a complete copy the place of the workspace, if that has not happened yet.
func (t *target) place() error {
	err := t.home.rename(stagingName, t.top, workspace.TreeName)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return notEmpty(workspace.TreeName)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s of the volume is mounted in this container; mount the whole volume alone: %w", workspace.TreeName, err)
	}
	for _, f := range []folder{t.home, t.top} {
		if err == nil {
			err = f.sync()
		}
	}
	if err != nil {
		return fmt.Errorf("moving the copy to %s of the volume: %w", workspace.TreeName, err)
	}
	return nil
}

// save makes a file with content that outlasts a loss of power once the directory is synced.
func (f folder) save(name string, content []byte) error {
	fd, err := f.create(name, markerMode)
	if err != nil {
		return err
	}
	f.step("write")
	_, err = unix.Write(fd, content)
	if err == nil {
		f.step("sync file")
		err = unix.Fsync(fd)
	}
	return errors.Join(err, unix.Close(fd))
}
