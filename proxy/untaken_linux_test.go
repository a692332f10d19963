// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// The kernel keeps the limit; that a connection has it from its listener is what could go wrong here.
func TestAConnectionOfAClientThatTakesNothingIsBounded(t *testing.T) {
	w := newWorld(t, intercept.TCP, newTCP(t, greeter), "")
	w.dial()
	eventually(t, "the connection is held", func() bool { return valueOf(w.proxy.metrics.connections) == 1 })
	w.proxy.clients.mu.Lock()
	defer w.proxy.clients.mu.Unlock()
	for c := range w.proxy.clients.conns {
		raw, err := c.Conn.(interface {
			SyscallConn() (syscall.RawConn, error)
		}).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			limit, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			if got := time.Duration(limit) * time.Millisecond; err != nil || got != UntakenTimeout {
				t.Errorf("the limit is %v, %v, want %v", got, err, UntakenTimeout)
			}
		})
	}
}
