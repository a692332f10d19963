// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
)

// kernels are the file systems whose files are the kernel's and not the image's, by the number of statfs. The attack: a
// target path of /proc/1 would copy what processes have in their environment into the workspace.
var kernels = map[int64]string{
	unix.PROC_SUPER_MAGIC: "proc", unix.SYSFS_MAGIC: "sysfs", unix.CGROUP_SUPER_MAGIC: "cgroup", unix.CGROUP2_SUPER_MAGIC: "cgroup2",
	unix.DEBUGFS_MAGIC: "debugfs", unix.TRACEFS_MAGIC: "tracefs", unix.SECURITYFS_MAGIC: "securityfs", unix.BPF_FS_MAGIC: "bpf",
	unix.DEVPTS_SUPER_MAGIC: "devpts",
}

// openSource opens the directory that is copied. Its path may lead through symlinks of the image.
func openSource(path string, target *target) (folder, unix.Statx_t, error) {
	if !filepath.IsAbs(path) {
		return folder{}, unix.Statx_t{}, invalid(path, "is not an absolute path")
	}
	f, err := openFolder(path, nil)
	switch {
	case errors.Is(err, unix.ENOENT):
		return f, unix.Statx_t{}, invalid(path, "does not exist in the image")
	case errors.Is(err, unix.ENOTDIR):
		return f, unix.Statx_t{}, invalid(path, "is not a directory")
	case denied(err):
		return f, unix.Statx_t{}, invalid(path, fmt.Sprintf("cannot be read by the pod's user (%d)", os.Getuid()))
	case err != nil:
		return f, unix.Statx_t{}, fmt.Errorf("opening %s: %w", path, err)
	}
	st, err := f.self()
	if err == nil {
		err = check(path, f, &st, target)
	}
	if err != nil {
		f.close()
		return folder{}, st, err
	}
	return f, st, nil
}

// check refuses directories that are not an app's.
func check(path string, source folder, st *unix.Statx_t, target *target) error {
	root, err := openFolder("/", nil)
	if err != nil {
		return fmt.Errorf("opening /: %w", err)
	}
	defer root.close()
	top, err := root.self()
	if err != nil {
		return fmt.Errorf("looking at /: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(source.fd, &fs); err != nil {
		return fmt.Errorf("looking at %s: %w", path, err)
	}
	switch kernel := kernels[fs.Type]; {
	case inodeOf(st) == inodeOf(&top):
		return invalid(path, "is the whole image; name the directory of the app")
	case kernel != "":
		return invalid(path, "is the kernel's ("+kernel+"), and not the image's")
	case inodeOf(st) == target.id:
		return invalid(path, "is the volume that it would be copied to")
	}
	return nil
}

func invalid(path, problem string) error {
	return refuse(copywire.InvalidSource, "%s %s", path, problem)
}
