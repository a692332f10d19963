// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

const (
	// messageBuffer is what one read of a relay takes; more than that at once is bulk.
	messageBuffer = 16 << 10
	// waitingBuffer is held by a connection that cannot be asked whether it has something.
	waitingBuffer = 512
)

var messageBuffers = sync.Pool{New: func() any { return new([messageBuffer]byte) }}

// receiver reads from a connection and needs a buffer only while there is something to read.
type receiver struct {
	conn net.Conn
	// raw is set for plain TCP.
	raw syscall.RawConn
	// waiting is for the others: TLS has plain text inside that nobody sees from outside.
	waiting []byte

	// What attempt found. It is a field, and attempt made once, so that a read allocates nothing.
	attempt func(fd uintptr) bool
	buf     *[messageBuffer]byte
	n       int
	err     error
}

func newReceiver(conn net.Conn) *receiver {
	r := &receiver{conn: conn}
	if tcp := plainTCP(conn); tcp != nil {
		if raw, err := tcp.SyscallConn(); err == nil {
			r.raw, r.attempt = raw, r.try
			return r
		}
	}
	r.waiting = make([]byte, waitingBuffer)
	return r
}

// plainTCP is the connection that the kernel can splice; nil for any that is not plain TCP.
func plainTCP(conn net.Conn) *net.TCPConn {
	if plain, ok := conn.(*rawconn.Conn); ok {
		return plain.TCPConn
	}
	return nil
}

// pass moves one read to a connection. full tells that there is probably more.
func (r *receiver) pass(to net.Conn) (n int, full bool, err error) {
	if r.raw == nil {
		return r.passWaiting(to)
	}
	if err := r.raw.Read(r.attempt); err != nil {
		return 0, false, err //nolint:wrapcheck // the relay wraps it
	}
	defer r.giveBack()
	if r.err != nil {
		return 0, false, r.err
	}
	if r.n == 0 {
		return 0, false, io.EOF
	}
	if _, err := to.Write(r.buf[:r.n]); err != nil {
		return 0, false, err //nolint:wrapcheck // the relay wraps it
	}
	return r.n, r.n == messageBuffer, nil
}

// try reads without waiting; false lets the runtime wait until there is something to read, and
// the buffer has gone back before that.
func (r *receiver) try(fd uintptr) bool {
	r.buf, _ = messageBuffers.Get().(*[messageBuffer]byte)
	r.n, r.err = rawconn.Read(fd, r.buf[:])
	if errors.Is(r.err, rawconn.ErrAgain) {
		r.giveBack()
		return false
	}
	return true
}

func (r *receiver) giveBack() {
	if r.buf != nil {
		messageBuffers.Put(r.buf)
		r.buf = nil
	}
}

// passWaiting waits with a small buffer and takes a larger one for what follows.
func (r *receiver) passWaiting(to net.Conn) (int, bool, error) {
	n, err := r.conn.Read(r.waiting)
	if n > 0 {
		if _, failed := to.Write(r.waiting[:n]); failed != nil {
			return 0, false, failed //nolint:wrapcheck // the relay wraps it
		}
	}
	if err != nil || n < len(r.waiting) {
		return n, false, err //nolint:wrapcheck // the relay wraps it
	}
	r.buf, _ = messageBuffers.Get().(*[messageBuffer]byte)
	defer r.giveBack()
	total := n
	// At most so much that bytes are counted now and then.
	for n == len(r.waiting) || n == messageBuffer && total < relayChunk {
		if n, err = r.conn.Read(r.buf[:]); n > 0 {
			if _, failed := to.Write(r.buf[:n]); failed != nil {
				return total, false, failed //nolint:wrapcheck // the relay wraps it
			}
			total += n
		}
		if err != nil {
			break
		}
	}
	return total, false, err //nolint:wrapcheck // the relay wraps it
}
