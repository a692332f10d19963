// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"errors"
	"os"
	"time"
)

var (
	errNotRegular = errors.New("it is no regular file")
	// errLocked means that another process has a file locked.
	errLocked = errors.New("another process has it")
)

// identity is what of a file changes when the file does.
type identity struct {
	Size  int64  `json:"s"`
	Mtime int64  `json:"m"`
	Ctime int64  `json:"c"`
	Inode uint64 `json:"i"`
	Mode  uint32 `json:"o"`
}

func identityOf(info os.FileInfo) identity {
	id := identity{Size: info.Size(), Mtime: info.ModTime().UnixNano(), Mode: uint32(info.Mode())}
	id.system(info)
	return id
}

// settled tells whether a file that was read at a time cannot have changed since without another
// identity. Clocks of file systems tick up to every two seconds, so that a file which was written
// shortly before may be written again with the same time (git calls it racily clean).
func (id identity) settled(read time.Time) bool {
	return max(id.Mtime, id.Ctime) < read.Add(-2*time.Second).UnixNano()
}
