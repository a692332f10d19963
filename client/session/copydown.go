// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

// treeDown copies a tree of a sandbox into a directory. What the sandbox says is chosen by
// code that runs in it: its names and its symlinks lead nowhere but below the directory.
type treeDown struct {
	root  *os.Root
	notes Notes
	// receive writes the content of a file into one below root, in a directory, and returns its name
	// there.
	receive func(ctx context.Context, entry syncwire.Entry, dir string, mode fs.FileMode) (string, error)
	// left counts what was left out.
	left int
}

// openTree makes the directory that a tree is copied into.
func openTree(destination string) (*os.Root, error) {
	if err := os.MkdirAll(destination, 0o755); err != nil {
		return nil, fmt.Errorf("writing the copy: %w", err)
	}
	root, err := os.OpenRoot(destination)
	if err != nil {
		return nil, fmt.Errorf("writing the copy: %w", err)
	}
	return root, nil
}

// downloadTree copies what lies below source, the whole workspace if it is empty.
func downloadTree(ctx context.Context, remote devsync.Remote, source, destination string, notes Notes) error {
	source = strings.Trim(path.Clean("/"+source), "/")
	listing, err := remote.List(ctx, nil, "")
	if err != nil {
		return fmt.Errorf("copying %s: %w", source, err)
	}
	root, err := openTree(destination)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	d := treeDown{root: root, notes: notes}
	d.receive = func(ctx context.Context, entry syncwire.Entry, dir string, mode fs.FileMode) (string, error) {
		progress := newProgress(notes, entry.Path, entry.Size)
		defer progress.end()
		file := devsync.Download{Remote: remote, Path: entry.Path, Size: entry.Size, Digest: entry.Digest, OnProgress: progress.at}
		temp, err := file.Into(ctx, root, dir, mode)
		progress.continued(file.Resumed, false)
		return temp, err
	}
	for _, entry := range listing.Entries {
		name, below := entry.Path, true
		if source != "" {
			name, below = strings.CutPrefix(entry.Path, source+"/")
		}
		if !below {
			continue
		}
		if err := d.copy(ctx, entry, name); err != nil {
			return fmt.Errorf("copying %s: %w", entry.Path, err)
		}
	}
	return leftOut(d.left)
}

// copy makes one entry under a name below the directory. What must not be there is left out and
// told; an error ends the whole.
func (d *treeDown) copy(ctx context.Context, entry syncwire.Entry, name string) error {
	reason := devsync.CheckName(name)
	if reason == "" && entry.Type == syncwire.Symlink {
		reason = devsync.CheckReceivedTarget(name, entry.Target)
	}
	if reason == "" {
		reason = d.inTheWay(name)
	}
	if reason != "" {
		d.leaveOut(entry.Path, reason)
		return nil
	}
	if entry.Type == syncwire.Dir {
		return d.root.MkdirAll(name, 0o755)
	}
	if err := d.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if entry.Type == syncwire.File {
		return d.file(ctx, entry, name)
	}
	if entry.Type != syncwire.Symlink {
		d.leaveOut(entry.Path, "it is neither a file, a directory nor a symlink")
		return nil
	}
	temp := path.Join(path.Dir(name), ".sandbar-cp-"+rand.Text())
	defer func() { _ = d.root.Remove(temp) }()
	if err := d.root.Symlink(entry.Target, temp); err != nil {
		return err
	}
	return d.root.Rename(temp, name)
}

// file makes a file.
func (d *treeDown) file(ctx context.Context, entry syncwire.Entry, name string) error {
	existing, err := d.root.Lstat(name)
	if err != nil {
		existing = nil
	}
	temp, err := d.receive(ctx, entry, path.Dir(name), devsync.FileMode(existing, entry.Executable))
	if err != nil {
		return err
	}
	if err := d.root.Rename(temp, name); err != nil {
		_ = d.root.Remove(temp)
		return err
	}
	return nil
}

func (d *treeDown) leaveOut(name, reason string) {
	d.left++
	d.notes.send(LeftOut{Path: name, Reason: reason})
}

// inTheWay returns why a name cannot be written to: a symlink on the way, which os.Root would follow
// as long as it stays inside, or something else where a directory has to be, or one where
// something else has to be.
func (d *treeDown) inTheWay(name string) string {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		if info, err := d.root.Lstat(name[:i]); err == nil && !info.IsDir() {
			return name[:i] + " is no directory here"
		}
	}
	return ""
}
