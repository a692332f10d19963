// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandbar-dev/sandbar/pkg/gitignore"
)

// ignoreFiles are read in each directory, the later one counting more.
var ignoreFiles = []string{".gitignore", ownIgnoreFile}

// ownIgnoreFile is the ignore file of this program alone.
const ownIgnoreFile = ".sandbarignore"

// maxIgnoreBytes bounds an ignore file; what lies behind is not read.
const maxIgnoreBytes = 1 << 20

// isIgnoreFile tells whether a change of a path changes what is ignored.
func isIgnoreFile(path string) bool {
	for _, name := range ignoreFiles {
		if strings.EqualFold(path[strings.LastIndexByte(path, '/')+1:], name) { // some file systems know no case
			return true
		}
	}
	return false
}

// rules are the patterns of a tree and of what lies above it. Paths are those of the tree.
type rules struct {
	above *above
	all   gitignore.Rules
	// own are those of .sandbarignore files alone: they hold for what git tracks, too.
	own gitignore.Rules
	// tracked are files that git tracks although a pattern of git names them, and the directories above
	// them. entered are those of the directories that are ignored: only what is tracked counts in them.
	tracked, entered map[string]bool
}

func newRules(a *above) *rules {
	r := &rules{above: a, tracked: map[string]bool{}, entered: map[string]bool{}}
	r.all.FoldCase, r.own.FoldCase = a.foldCase, a.foldCase
	for _, text := range a.defaults {
		r.all.AddDefaults(text)
	}
	for _, f := range a.files {
		r.add(f)
	}
	for _, path := range a.tracked {
		r.tracked[path] = true
		for dir := range ancestors(path) {
			r.tracked[dir] = true
		}
	}
	return r
}

func (r *rules) add(f ruleFile) {
	r.all.Add(f.dir, f.text)
	if f.name == ownIgnoreFile {
		r.own.Add(f.dir, f.text)
	}
}

// read adds the rules that lie in a directory.
func (r *rules) read(root, dir string) error {
	below := strings.TrimSuffix(r.above.prefix+dir, "/")
	r.all.Reset(below)
	r.own.Reset(below)
	if dir != "" {
		// A repository in the directory: a submodule, or a clone that nothing ignores.
		text, err := nestedExclude(filepath.Join(root, dir))
		if err != nil {
			return err
		}
		r.all.Add(below, text)
	}
	for _, name := range ignoreFiles {
		text, err := readIgnoreFile(filepath.Join(root, dir), name)
		if err != nil {
			return err
		}
		r.add(ruleFile{below, name, text})
	}
	return nil
}

// nestedExclude reads .git/info/exclude of a repository whose top is a directory; empty if it is the top of none.
func nestedExclude(dir string) (string, error) {
	gitDir := repositoryAt(dir)
	if gitDir == "" {
		return "", nil
	}
	return readRules(filepath.Join(commonDir(gitDir), "info", "exclude"))
}

// readIgnoreFile reads a file of rules; empty if there is none.
func readIgnoreFile(dir, name string) (string, error) {
	f, err := openRegular(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes)) //nolint:forbidigo // maxIgnoreBytes
	return string(text), err
}

// skips reports whether a path does not count whose parent does; for walks.
func (r *rules) skips(path string, isDir bool) bool {
	if !r.all.Matches(r.above.prefix+path, isDir) && (len(r.entered) == 0 || !r.entered[parent(path)]) {
		return false
	}
	if !r.tracked[path] || r.ignoredBy(&r.own, path, isDir) {
		return true
	}
	if isDir {
		r.entered[path] = true
	}
	return false
}

// ignored reports whether a path does not count.
func (r *rules) ignored(path string, isDir bool) bool {
	return r.ignoredBy(&r.all, path, isDir) && (!r.tracked[path] || r.ignoredBy(&r.own, path, isDir))
}

// ignoredBy reports whether patterns name a path, or a directory of the tree above it. Directories above the
// tree do not count: the tree was named.
func (r *rules) ignoredBy(patterns *gitignore.Rules, path string, isDir bool) bool {
	for dir := range ancestors(path) {
		if patterns.Matches(r.above.prefix+dir, true) {
			return true
		}
	}
	return patterns.Matches(r.above.prefix+path, isDir)
}

// parent is the directory of a path; empty for one at the top.
func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// excludable are the names of directories that are large, hold what tools made, and can be left
// out of a listing if they are ignored here anyway.
var excludable = []string{
	".cache", ".next", ".pnpm-store", ".svelte-kit", ".terraform", ".tox", ".venv", ".vite", "__pycache__",
	"build", "dist", "node_modules", "target", "vendor", "venv",
}

// excludes are the names of excludable that the sandbox need not list.
func (t *tree) excludes() []string {
	seen := map[string]bool{}
	for dir := range t.dirs {
		seen[path.Base(dir)] = true
	}
	for name := range t.rules.tracked { // it may be gone here, which the sandbox has yet to learn
		seen[path.Base(name)] = true
	}
	names := slices.Clone(repositories)
	for _, name := range excludable {
		// A pattern such as /build names it at the top alone.
		if !seen[name] && t.rules.ignored(name, true) && t.rules.ignored("any/where/"+name, true) {
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
