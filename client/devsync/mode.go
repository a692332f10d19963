// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import "io/fs"

// FileMode is the mode of a file that comes from a sandbox. One that takes the place of a regular file, existing,
// keeps that one's rights but for the right to execute; a new one, for which existing is nil, gets the rights that
// the process's umask leaves. Where executable is set, those who may read the file may execute it.
func FileMode(existing fs.FileInfo, executable bool) fs.FileMode {
	mode := 0o666 &^ umask
	if existing != nil && existing.Mode().IsRegular() {
		mode = existing.Mode().Perm() &^ 0o111
	}
	if executable {
		mode |= mode & 0o444 >> 2
	}
	return mode
}
