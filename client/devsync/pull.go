// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

const dirMode = 0o755

// errInTheWay means that the directory is not as it was when it was compared.
var errInTheWay = errors.New("it changed here meanwhile")

// pull makes the directory as the workspace is, one path after the other: deletions first, since
// they make room.
func (e *Engine) pull(ctx context.Context, changes []change) (err error) {
	defer func() { err = errors.Join(err, e.base.flush()) }()
	for _, deletions := range []bool{true, false} {
		for _, c := range changes {
			if (c.want.Type == syncwire.None) != deletions {
				continue
			}
			if err := e.sameRoot(); err != nil {
				return err
			}
			if err := e.pullOne(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) pullOne(ctx context.Context, c change) error {
	err := e.receive(ctx, c)
	var remote *RemoteError
	switch {
	case err == nil:
		e.base.set(c.path, c.want) // first: where files have no executable bit, it says which are programs
		if _, err := e.local.look(ctx, c.path); err != nil {
			return err
		}
		delete(e.stuck, c.path)
		e.received++
		e.tell(c, FileReceived, "")
		return nil
	case errors.As(err, &remote) && (remote.Kind == Unavailable || remote.Kind == Denied), ctx.Err() != nil:
		return err
	case errors.As(err, &remote), errors.Is(err, errMoved):
		e.relist, e.again = true, true // it changed in the sandbox meanwhile
	case errors.Is(err, errInTheWay), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		e.dirty[c.path], e.again = true, true
	default:
		e.refuse(c, err.Error())
		return nil
	}
	s := e.stuck[c.path]
	e.stuck[c.path] = stuck{times: s.times + 1, reason: fmt.Sprintf("it cannot be written here: %v", err), local: e.local.entry(c.path)}
	return nil
}

// receive changes one path of the directory. All of it goes through e.root, which leads nowhere
// else, whatever the sandbox calls its files.
func (e *Engine) receive(ctx context.Context, c change) error {
	for dir := range ancestors(c.path) {
		// os.Root follows symlinks that stay inside; a file of the sandbox belongs where its
		// path says, and not where a link leads.
		if info, err := e.root.Lstat(dir); err == nil && !info.IsDir() {
			return errInTheWay
		}
	}
	switch c.want.Type {
	case syncwire.None:
		if err := e.checkRules(c, ""); err != nil {
			return err
		}
		return e.remove(c)
	case syncwire.File, syncwire.Symlink:
	default:
		return errors.New("it is neither a file nor a symlink in the sandbox")
	}
	dir := path.Dir(c.path)
	if err := e.root.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	temp := path.Join(dir, incoming+rand.Text())
	defer func() {
		if temp != "" {
			_ = e.root.Remove(temp)
		}
	}()
	if c.want.Type == syncwire.Symlink {
		if reason := CheckReceivedTarget(c.path, c.want.Target); reason != "" {
			return errors.New(reason)
		}
		if err := e.checkRules(c, ""); err != nil {
			return err
		}
		if err := e.root.Symlink(c.want.Target, temp); err != nil {
			return err
		}
	} else {
		var err error
		if temp, err = e.download(ctx, c, dir); err != nil {
			temp = "" // it is gone, or the beginning of a large file, which stays
			return err
		}
		if err := e.checkRules(c, temp); err != nil {
			return err
		}
	}
	if e.local.dirs[c.path] {
		if err := e.removeDirs(c.path); err != nil {
			return err
		}
	}
	if err := e.unchanged(c); err != nil {
		return err
	}
	return e.root.Rename(temp, c.path)
}

// download writes what the sandbox has at a path to a file of its own, and returns its name.
func (e *Engine) download(ctx context.Context, c change, dir string) (string, error) {
	existing, err := e.root.Lstat(c.path)
	if err != nil {
		existing = nil
	}
	if c.want.Digest == "" {
		return "", errors.New("it is too large for the sandbox to tell its digest; sandbar cp copies it")
	}
	d := Download{Remote: e.opts.Remote, Path: c.path, Size: c.want.Size, Digest: c.want.Digest, OnProgress: e.progress(c.path, c.want.Size)}
	name, err := d.Into(ctx, e.root, dir, FileMode(existing, c.want.Executable))
	if errors.Is(err, ErrChanged) {
		err = errMoved
	}
	return name, err
}

func (e *Engine) remove(c change) error {
	if err := e.unchanged(c); err != nil {
		return err
	}
	if err := e.root.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Directories exist by their files. One that has others, ignored ones too, stays.
	for dir := path.Dir(c.path); dir != "." && !e.remote.dirs[dir]; dir = path.Dir(dir) {
		if err := e.root.Remove(dir); err != nil {
			return nil //nolint:nilerr // it has others
		}
		delete(e.local.dirs, dir)
	}
	return nil
}

// removeDirs takes away a directory and those in it, if there are no files.
func (e *Engine) removeDirs(dir string) error {
	entries, err := fs.ReadDir(e.root.FS(), dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			return errInTheWay
		}
		if err := e.removeDirs(path.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return e.root.Remove(dir)
}

// unchanged fails when what lies at a path is not what was compared: what a person saved a moment
// ago is not overwritten.
func (e *Engine) unchanged(c change) error {
	info, err := e.root.Lstat(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		if c.expect.Type == syncwire.None {
			return nil
		}
		return errInTheWay
	}
	if err != nil {
		return err
	}
	n, known := e.local.nodes[c.path]
	if known && n.ID == identityOf(info) && (n.Entry.Type == syncwire.Symlink || n.ID.settled(n.Read)) {
		return nil
	}
	if known && n.Entry.Type == syncwire.File && info.Mode().IsRegular() {
		if now, err := e.local.hash(c.path); err == nil && now.Entry.Same(c.expect) {
			return nil
		}
	}
	return errInTheWay
}

// sweep removes what an engine that was killed left while it received files.
func sweep(root string, dirs map[string]bool) {
	for dir := range dirs {
		names, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			continue
		}
		for _, name := range names {
			if strings.HasPrefix(name.Name(), incoming) && !name.IsDir() && !isKept(name) {
				_ = os.Remove(filepath.Join(root, dir, name.Name()))
			}
		}
	}
}
