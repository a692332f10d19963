// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandbar-dev/sandbar/pkg/gitignore"
)

// ignoreFiles are read in each directory, the later one counting more.
var ignoreFiles = []string{".gitignore", ".sandbarignore"}

// maxIgnoreBytes bounds an ignore file; what lies behind is not read.
const maxIgnoreBytes = 1 << 20

// isIgnoreFile tells whether a change of a path changes what is ignored.
func isIgnoreFile(path string) bool {
	for _, name := range ignoreFiles {
		if path == name || strings.HasSuffix(path, "/"+name) {
			return true
		}
	}
	return false
}

// readIgnores adds the rules that lie in a directory.
func readIgnores(rules *gitignore.Rules, root, dir string) error {
	rules.Reset(dir)
	for _, name := range ignoreFiles {
		f, err := openRegular(filepath.Join(root, dir, name))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
			continue
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes)) //nolint:forbidigo // maxIgnoreBytes
		_ = f.Close()
		if err != nil {
			return err
		}
		rules.Add(dir, string(text))
	}
	return nil
}

// excludable are the names of directories that are large, hold what tools made, and can be left
// out of a listing if they are ignored here anyway.
var excludable = []string{
	".git", ".cache", ".next", ".pnpm-store", ".svelte-kit", ".terraform", ".tox", ".venv", ".vite", "__pycache__",
	"build", "dist", "node_modules", "target", "vendor", "venv",
}

// excludes are the names of excludable that the sandbox need not list.
func (t *tree) excludes() []string {
	seen := map[string]bool{}
	for dir := range t.dirs {
		seen[dir[strings.LastIndexByte(dir, '/')+1:]] = true
	}
	var names []string
	for _, name := range excludable {
		if name == ".git" || !seen[name] && t.rules.Ignored(name, true) {
			names = append(names, name)
		}
	}
	return names
}

// openRegular opens a regular file for reading and follows no symlink. A FIFO would hold the
// caller until somebody writes.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		if errors.Is(err, errSymlink) {
			err = errNotRegular
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || openFlags == 0 && isReplaced(path, info)) {
		err = errNotRegular
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// isReplaced reports whether something else than the file that was opened lies at a path: a symlink to it above
// all, where no flag keeps from following one.
func isReplaced(path string, opened os.FileInfo) bool {
	there, err := os.Lstat(path)
	return err != nil || !os.SameFile(there, opened)
}
