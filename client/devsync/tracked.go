// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxSubmodules bounds the submodules, with those in them, that git is asked about.
const maxSubmodules = 200

// tracked asks git which files below a directory it tracks although a rule names them. top is that of the work
// tree. All that a submodule tracks is added, because its own repository has it, also where a rule above names it.
func tracked(ctx context.Context, top, dir string) ([]string, error) {
	paths, err := listed(ctx, dir, "--cached", "--ignored", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	left := maxSubmodules
	inSubmodules, err := trackedBySubmodules(ctx, top, dir, &left)
	if err != nil {
		return nil, err
	}
	paths = append(paths, inSubmodules...)
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// trackedBySubmodules returns what the submodules of a work tree track below a directory, relative to it.
func trackedBySubmodules(ctx context.Context, top, dir string, left *int) (paths []string, err error) {
	for _, name := range submodules(ctx, top) {
		module := filepath.Join(top, filepath.FromSlash(name))
		below := inside(dir, module)
		if below == "" {
			continue
		}
		if info, err := os.Lstat(module); err != nil || !info.IsDir() {
			continue
		}
		if _, err := os.Lstat(filepath.Join(module, ".git")); err != nil {
			continue // it is not checked out
		}
		if *left--; *left < 0 {
			return nil, fmt.Errorf("there are more than %d submodules", maxSubmodules)
		}
		files, err := listed(ctx, module, "--cached")
		if err != nil {
			return nil, fmt.Errorf("the submodule %s: %w", name, err)
		}
		more, err := trackedBySubmodules(ctx, module, module, left)
		if err != nil {
			return nil, err
		}
		for _, file := range append(files, more...) {
			paths = append(paths, path.Join(below, file))
		}
	}
	return paths, nil
}

// submodules are the paths of a work tree's submodules, as its .gitmodules names them; none if git cannot say.
func submodules(ctx context.Context, top string) (paths []string) {
	file := filepath.Join(top, ".gitmodules")
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	out, err := git(ctx, top, "config", "--file", file, "-z", "--get-regexp", `^submodule\..*\.path$`)
	if err != nil {
		return nil
	}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if _, value, ok := strings.Cut(entry, "\n"); ok && CheckName(value) == "" {
			paths = append(paths, value)
		}
	}
	return paths
}

// listed are the paths that git ls-files lists in a directory, relative to it.
func listed(ctx context.Context, dir string, flags ...string) ([]string, error) {
	out, err := git(ctx, dir, append([]string{"ls-files", "-z"}, flags...)...)
	if err != nil {
		return nil, err
	}
	paths := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(paths, func(name string) bool { return name == "" }), nil
}
