// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsync

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// openFlags are none: openRegular compares what is there with what was opened, and os.Root follows no link
// out of its directory. Windows has no FIFOs in directories.
const openFlags = 0

// umask takes no right away: Windows has none of the kind.
var umask fs.FileMode

// hasExecutableBit: Windows has none, so that what the sandbox says holds.
const hasExecutableBit = false

// errSymlink is not an error of Windows.
var errSymlink = errNotRegular

// checkSystem returns why this system cannot have a name; empty if it can.
func checkSystem(name string) string { return checkWindows(name) }

// silentFileSystem names the file system of a directory if it does not tell what others change in it; empty
// if it does, or is not known. Windows asks a file server for changes.
func silentFileSystem(string) string { return "" }

// system adds what the system knows of a file beyond its size and times. The index of a file would cost
// opening it; the time of its creation tells most replacements.
func (id *identity) system(info os.FileInfo) {
	if data, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		id.Ctime = data.CreationTime.Nanoseconds()
	}
}

// The locked byte lies behind all content: on Windows others cannot read what is locked.
func lockedByte() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// lock locks an open file until unlock, or until the process ends. It fails with errLocked.
func lock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, lockedByte())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errLocked
	}
	return err
}

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockedByte())
}
