// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsync

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func changeTime(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }

// silentTypes are file systems whose files others change, by way of a server or of what lies below, and the
// kernel tells nothing of it. FUSE has bindfs, sshfs and virtiofs; 9p is WSL's /mnt/c and a VM's share.
var silentTypes = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB",
	unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "FUSE", unix.AFS_SUPER_MAGIC: "AFS", unix.CEPH_SUPER_MAGIC: "CephFS",
	0x786f4256: "a shared folder of VirtualBox",
}

// silentFileSystem names the file system of a directory if it does not tell what others change in it; empty
// if it does, or is not known.
func silentFileSystem(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	return silentTypes[int64(uint32(st.Type))] // signed on some architectures
}
