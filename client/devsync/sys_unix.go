// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package devsync

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openFlags open a file as what it is: no symlink is followed, and a FIFO holds nobody.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// umask is the process's, read before anything runs that could make a file meanwhile: the system tells it only to
// who sets it.
var umask = func() fs.FileMode {
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return fs.FileMode(mask) & fs.ModePerm
}()

// hasExecutableBit: the file system says which files are programs.
const hasExecutableBit = true

// errSymlink is what the kernel says for a symlink under O_NOFOLLOW.
var errSymlink error = syscall.ELOOP

// checkSystem returns why this system cannot have a name; empty if it can.
func checkSystem(string) string { return "" }

// system adds what the system knows of a file beyond its size and times.
func (id *identity) system(info os.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.Inode = st.Ino
		id.Ctime = changeTime(st)
	}
}

// lock locks an open file until unlock, or until the process ends. It fails with errLocked.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
