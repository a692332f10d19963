// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && race

package rawconn

import "syscall"

// The race detector learns from package syscall that what happened before a write happened before
// the read of what was written. Without that, tests in which both ends of a connection are in one
// process would report races that there are not.

func readOnce(fd uintptr, p []byte) (int, error) {
	n, err := syscall.Read(int(fd), p)
	return max(n, 0), err
}

func writeOnce(fd uintptr, p []byte) (int, error) {
	n, err := syscall.Write(int(fd), p)
	return max(n, 0), err
}
