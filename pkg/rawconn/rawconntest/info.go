// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package rawconntest asks the kernel what a connection did, for tests.
package rawconntest

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Info is what TCP_INFO (tcp(7)) says of a TCP connection now: how many segments with data came and
// left, for one.
func Info(t testing.TB, conn syscall.Conn) *unix.TCPInfo {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	called := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err := errors.Join(called, err); err != nil {
		t.Fatal(err)
	}
	return info
}
