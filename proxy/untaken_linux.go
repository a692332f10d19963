// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitUntaken has the kernel end a connection whose other side takes nothing for a time (TCP_USER_TIMEOUT in tcp(7)), also one
// that is gone without a word. Connections inherit it from their listener. 0 is none.
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

// errNotTCP means that a connection is not one of TCP.
var errNotTCP = errors.New("it is not a connection of TCP")

// rawOf is the kernel's side of a connection.
func rawOf(conn net.Conn) (syscall.RawConn, error) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil, errNotTCP
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("taking hold of a connection: %w", err)
	}
	return raw, nil
}

func limitUntakenOf(conn net.Conn, within time.Duration) error {
	raw, err := rawOf(conn)
	if err != nil {
		return err
	}
	return limitUntaken(raw, within)
}

// flightOf asks the kernel for what a connection has sent (TCP_INFO in tcp(7)). Kernels before 5.4 do not tell how much room the
// other side has: it counts as one that has none.
func flightOf(conn net.Conn) (flight, error) {
	raw, err := rawOf(conn)
	if err != nil {
		return flight{}, err
	}
	var info *unix.TCPInfo
	var failed error
	err = raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = errors.Join(err, failed); err != nil {
		return flight{}, fmt.Errorf("asking for what was sent: %w", err)
	}
	return flight{
		unacknowledged: info.Unacked > 0, waiting: info.Notsent_bytes > 0, shut: info.Snd_wnd == 0,
		silent: time.Duration(info.Last_ack_recv) * time.Millisecond,
	}, nil
}
