// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package rawconn

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func readOnce(fd uintptr, p []byte) (int, error) { return raw(unix.SYS_READ, fd, p) }

func writeOnce(fd uintptr, p []byte) (int, error) { return raw(unix.SYS_WRITE, fd, p) }

func raw(call, fd uintptr, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) //nolint:gosec // G103: the kernel has p for the length of the call
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
