// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// refusals tell what refused connections, by the errors that the kernel keeps for each socket (IP_RECVERR in ip(7)): what came by ICMP
// is there, and a RST is not. Kernels before 5.9 keep none for a connection that is being made: all refusals look as if they
// were those of peers.
type refusals struct {
	mu sync.Mutex
	// sockets are held beyond the end of the connections.
	sockets []int
}

// hold has the kernel keep errors for a connection that is about to be made.
func (r *refusals) hold(network string, conn syscall.RawConn) error {
	level, option := unix.SOL_IP, unix.IP_RECVERR
	if network == "tcp6" {
		level, option = unix.SOL_IPV6, unix.IPV6_RECVERR
	}
	var failed error
	err := conn.Control(func(fd uintptr) {
		if failed = unix.SetsockoptInt(int(fd), level, option, 1); failed != nil {
			return
		}
		var held int
		if held, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); failed == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.sockets = append(r.sockets, held)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("asking for the errors of a connection: %w", err)
	}
	return nil
}

// areOfPeers reports whether nothing was refused by a node on the way.
func (r *refusals) areOfPeers() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, fd := range r.sockets {
		var told [512]byte
		_, _, _, _, err := unix.Recvmsg(fd, nil, told[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if !errors.Is(err, unix.EAGAIN) {
			return false
		}
	}
	return len(r.sockets) > 0
}

func (r *refusals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, fd := range r.sockets {
		_ = unix.Close(fd)
	}
	r.sockets = nil
}
