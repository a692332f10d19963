// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsync

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func changeTime(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }

// silentFileSystem names the file system of a directory if it does not tell what others change in it; empty
// if it does, or is not known.
func silentFileSystem(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return unix.ByteSliceToString(st.Fstypename[:])
}
