// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

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

// Poll is poll(2) of one descriptor without waiting: which of the events are there. POLLERR and
// POLLHUP are told in any case.
func Poll(fd uintptr, events int16) (int16, error) {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
	var now unix.Timespec
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0) //nolint:gosec // G103: the kernel has both for the length of the call
		switch errno {
		case 0:
			return fds[0].Revents, nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
