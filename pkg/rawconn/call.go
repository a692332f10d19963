// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rawconn

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// longestCall bounds what one call copies: while it runs nobody else has its processor, and a
// garbage collection waits for it.
const longestCall = 64 << 10

// Read is read(2) of a descriptor that is known to be non-blocking, such as the one that the
// SyscallConn of a TCP connection hands out. It reads 64 KiB at most. Nothing to read is EAGAIN,
// an end is 0; p must not be empty.
func Read(fd uintptr, p []byte) (int, error) { return again(readOnce, fd, p) }

func write(fd uintptr, p []byte) (int, error) { return again(writeOnce, fd, p) }

func again(call func(fd uintptr, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(fd, p[:min(len(p), longestCall)])
		if err == nil || !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// ErrAgain is the error of a descriptor that has nothing to read now.
const ErrAgain = unix.EAGAIN

// Quiet reports, without waiting, whether the peer of a descriptor has neither sent anything that is unread
// nor closed or reset the connection.
func Quiet(fd uintptr) bool {
	// POLLERR and POLLHUP are told in any case.
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
	var now unix.Timespec
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0) //nolint:gosec // G103: the kernel has both for the length of the call
		switch errno {
		case 0:
			return fds[0].Revents == 0
		case unix.EINTR:
		default:
			return false
		}
	}
}
