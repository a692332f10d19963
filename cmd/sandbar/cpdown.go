// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
	"github.com/sandbar-dev/sandbar/runner/syncwire"
)

// errLeftOut ends a copy that is not whole; what is missing, has been printed.
var errLeftOut = errors.New("not everything was copied")

// treeDown copies a tree of a sandbox into a directory. What the sandbox says is chosen by
// whoever runs code in it: its names and its symlinks lead nowhere but below the directory.
type treeDown struct {
	remote devsync.Remote
	root   *os.Root
	notes  io.Writer
	// left counts what was left out.
	left int
}

// downloadTree copies what lies below source, the whole workspace if it is empty.
func downloadTree(ctx context.Context, remote devsync.Remote, source, destination string, notes io.Writer) error {
	source = strings.Trim(path.Clean("/"+source), "/")
	listing, err := remote.List(ctx, nil, "")
	if err != nil {
		return fmt.Errorf("copying %s: %w", source, err)
	}
	if err := os.MkdirAll(destination, 0o755); err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	root, err := os.OpenRoot(destination)
	if err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	defer func() { _ = root.Close() }()
	d := treeDown{remote: remote, root: root, notes: notes}
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
	if d.left > 0 {
		return fmt.Errorf("%w: %d entries were left out", errLeftOut, d.left)
	}
	return nil
}

// copy makes one entry under a name below the directory. What must not be there is left out and
// told; an error ends the whole.
func (d *treeDown) copy(ctx context.Context, entry syncwire.Entry, name string) error {
	reason := devsync.CheckName(name)
	if reason == "" && entry.Type == syncwire.Symlink {
		reason = devsync.CheckTarget(name, entry.Target)
	}
	if reason == "" {
		reason = d.inTheWay(name)
	}
	if reason != "" {
		return d.leaveOut(entry.Path, reason)
	}
	if entry.Type == syncwire.Dir {
		return d.root.MkdirAll(name, 0o755)
	}
	if err := d.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	temp := path.Join(path.Dir(name), ".sandbar-cp-"+rand.Text())
	defer func() { _ = d.root.Remove(temp) }()
	switch entry.Type {
	case syncwire.Symlink:
		if err := d.root.Symlink(entry.Target, temp); err != nil {
			return err
		}
	case syncwire.File:
		if err := d.content(ctx, entry, temp); err != nil {
			return err
		}
	default:
		return d.leaveOut(entry.Path, "it is neither a file, a directory nor a symlink")
	}
	return d.root.Rename(temp, name)
}

func (d *treeDown) leaveOut(name, reason string) error {
	d.left++
	_, err := fmt.Fprintf(d.notes, "left out %s: %s\n", termsafe.String(name), termsafe.String(reason))
	return err
}

// inTheWay tells why a name cannot be written to: a symlink on the way, which os.Root would follow
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

// content writes a file of its own. One that changes while it is copied is an error: half of one
// and half of another helps nobody.
func (d *treeDown) content(ctx context.Context, entry syncwire.Entry, temp string) error {
	content, err := d.remote.Read(ctx, entry.Path)
	if err != nil {
		return err
	}
	defer content.Close()
	mode := fs.FileMode(0o644)
	if entry.Executable {
		mode = 0o755
	}
	f, err := d.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	// One byte more than was listed is enough to see that it is another file, and a sandbox
	// cannot fill the disk with one that does not end.
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(content, entry.Size+1))
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	if n != entry.Size || entry.Digest != "" && hex.EncodeToString(sum.Sum(nil)) != entry.Digest {
		return errors.New("it changed while it was copied: try again")
	}
	return nil
}
