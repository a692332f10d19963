// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// lateConn passes on what is written to it some time later, in order, as a network with a long way does. What is read is not
// delayed.
type lateConn struct {
	net.Conn
	lag *atomic.Int64 // nanoseconds

	mu     sync.Mutex
	closed bool
	due    chan late
	failed chan struct{} // closed when nothing can be written any more
}

type late struct {
	at   time.Time
	data []byte
}

// lateBacklog is how many writes are on their way at once; the next one waits.
const lateBacklog = 1024

func newLateConn(conn net.Conn, lag *atomic.Int64) *lateConn {
	c := &lateConn{Conn: conn, lag: lag, due: make(chan late, lateBacklog), failed: make(chan struct{})}
	go c.deliver()
	return c
}

// deliver ends when the connection was closed and all that was written before has arrived, or when that cannot be.
func (c *lateConn) deliver() {
	defer close(c.failed)
	defer c.Conn.Close()
	for next := range c.due {
		<-time.After(time.Until(next.at))
		if _, err := c.Conn.Write(next.data); err != nil {
			return
		}
	}
}

func (c *lateConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	select {
	case c.due <- late{time.Now().Add(time.Duration(c.lag.Load())), bytes.Clone(p)}:
		return len(p), nil
	case <-c.failed:
		return 0, net.ErrClosed
	}
}

// Close lets what was written arrive, and reads nothing more.
func (c *lateConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.due)
	}
	return c.SetReadDeadline(time.Now())
}
