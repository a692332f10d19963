// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitUntaken has the kernel end a connection whose other side takes nothing for a time (TCP_USER_TIMEOUT in tcp(7)), also one
// that is gone without a word. Connections inherit it from their listener.
//
// The attack: clients that ask for much and read nothing hold the proxy's connections, memory and the backends'.
func limitUntaken(conn syscall.RawConn, within time.Duration) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(within.Milliseconds()))
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("limiting how long the other side takes nothing: %w", err)
	}
	return nil
}
