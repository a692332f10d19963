// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rawconn

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Cork has the kernel keep back what does not fill a packet until Uncork, or for 200 ms at most
// (TCP_CORK in tcp(7)): what is written in parts leaves, and wakes the peer, once. On a connection
// that has ended both do nothing, which the next write tells.
func (c *Conn) Cork() { _ = c.raw.Control(cork) }

// Uncork sends what Cork kept back.
func (c *Conn) Uncork() { _ = c.raw.Control(uncork) }

func cork(fd uintptr) { setCork(fd, 1) }

func uncork(fd uintptr) { setCork(fd, 0) }

func setCork(fd uintptr, on int32) {
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, fd, unix.IPPROTO_TCP, unix.TCP_CORK, uintptr(unsafe.Pointer(&on)), unsafe.Sizeof(on), 0) //nolint:gosec // G103: the kernel has it for the length of the call
}
