// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUntaken has the kernel end connections whose client takes nothing for UntakenTimeout (TCP_USER_TIMEOUT in tcp(7)),
// which connections inherit from their listener.
//
// The attack: clients that ask for much and read nothing hold the proxy's connections, memory and the backends'.
func limitUntaken(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(UntakenTimeout.Milliseconds()))
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("limiting how long a client takes nothing: %w", err)
	}
	return nil
}
