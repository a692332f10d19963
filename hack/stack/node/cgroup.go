// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

// cgroupRoots returns where the node's cgroup is or would be: once per hierarchy
// with cgroup v1, once with v2.
func cgroupRoots(name string) ([]string, error) {
	const mount = "/sys/fs/cgroup"
	if hasCgroupV2() {
		return []string{filepath.Join(mount, name)}, nil
	}
	hierarchies, err := os.ReadDir(mount)
	if err != nil {
		return nil, fmt.Errorf("listing the cgroup hierarchies: %w", err)
	}
	var roots []string
	for _, h := range hierarchies {
		// A link is another name for a hierarchy that is listed too.
		if h.IsDir() {
			roots = append(roots, filepath.Join(mount, h.Name(), name))
		}
	}
	return roots, nil
}

// CreateCgroups makes the node's cgroup, which kubelet wants to find.
func CreateCgroups(name string) error {
	roots, err := cgroupRoots(name)
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("creating the cgroup %s: %w", root, err)
		}
	}
	return nil
}

// RemoveCgroups removes the node's cgroup with all below it. Its processes must
// have been killed; the kernel may take a moment to let go of the last of them.
func RemoveCgroups(ctx context.Context, name string) error {
	roots, err := cgroupRoots(name)
	if err != nil {
		return err
	}
	for _, root := range roots {
		var last error
		err := unit.Poll(ctx, func() bool {
			last = removeTree(root)
			return last == nil || !errors.Is(last, unix.EBUSY)
		})
		if err = errors.Join(err, last); err != nil {
			return fmt.Errorf("removing the cgroup %s: %w", root, err)
		}
	}
	return nil
}

// removeTree removes folders from the leaves up. Only rmdir works on cgroups:
// their files cannot be removed and need not be.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
