// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package rawconn reads from and writes to TCP connections by system calls that Go's scheduler is
// not told of. A system call may wait, so package syscall tells the scheduler before each and
// after; and the first one after a process has slept wakes the runtime's monitor thread, mostly
// on a processor that sleeps as well. A proxy that passes on a message each time it is woken pays
// that for every message (docs/adr/0012-raw-system-calls.md has the figures). A TCP connection of
// package net never waits in a system call: its descriptor is non-blocking, and who waits waits
// for the runtime's poller, here as there. So there is nothing the scheduler had to know.
package rawconn

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Conn is a TCP connection. All but Read and Write is package net's: what its ReadFrom does with
// another TCP connection (splice) as well, which looks for a *net.TCPConn on the other side.
type Conn struct {
	*net.TCPConn
	raw     syscall.RawConn
	in, out half
	// written counts what was written since others had their turn.
	written atomic.Int64
	// Note is for whoever holds the connection; nothing here looks at it.
	Note atomic.Int32
}

// Of makes a *Conn of a *net.TCPConn, and returns any other connection as it is.
func Of(conn net.Conn) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return conn // there is nothing behind it, which its own methods tell
	}
	c := &Conn{TCPConn: tcp, raw: raw}
	c.in.attempt, c.out.attempt = c.in.read, c.out.write
	return c
}

// half is one direction. What a call is about are fields, and attempt is made once, so that a
// call allocates nothing.
type half struct {
	mu      sync.Mutex
	attempt func(fd uintptr) bool
	p       []byte
	n       int
	err     error
}

// Read is like that of *net.TCPConn: its deadlines hold, its errors are *net.OpError.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.in.do(c.raw.Read, p)
	switch {
	case err != nil:
		return n, c.explain("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// turn is how many bytes are written before others have their turn. The scheduler knows nothing of
// these calls, so whoever passes on much would have a processor for 10 ms at a time, while what
// others asked for waits.
const turn = 64 << 10

// Write is like that of *net.TCPConn.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.do(c.raw.Write, p)
	if c.written.Add(int64(n)) >= turn {
		c.written.Store(0)
		runtime.Gosched()
	}
	if err != nil {
		return n, c.explain("write", err)
	}
	return n, nil
}

// do has the poller call attempt until it is done.
func (h *half) do(poll func(func(uintptr) bool) error, p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.p, h.n, h.err = p, 0, nil
	err := poll(h.attempt)
	h.p = nil
	if err == nil {
		err = h.err
	}
	return h.n, err
}

// read is one attempt; false has the poller wait for more.
func (h *half) read(fd uintptr) bool {
	h.n, h.err = Read(fd, h.p)
	return !errors.Is(h.err, unix.EAGAIN)
}

func (h *half) write(fd uintptr) bool {
	for h.n < len(h.p) {
		n, err := write(fd, h.p[h.n:])
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		if err != nil {
			h.err = err
			return true
		}
		h.n += n
	}
	return true
}

// explain makes an error one of this connection's, as package net does.
func (c *Conn) explain(op string, err error) error {
	var own *net.OpError
	if errors.As(err, &own) {
		own.Op = op // the poller's, made for this call, says "raw-read"
		return own
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, err)}
}
