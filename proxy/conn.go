// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

// clientConn is a connection of a client.
type clientConn struct {
	net.Conn
	port *port
	// address is the client's, without its port.
	address string
	// early was read to find out the protocol, and is read again first.
	early []byte
	// upstreams are those of a connection of HTTP/2.
	upstreams upstreams
	// withCopies are how many of its requests are with copies.
	withCopies atomic.Int32
	// gone watches the client while a request is answered without a server; nil if a server has the connection.
	gone    atomic.Pointer[goneWatch]
	closing sync.Once
}

func newClientConn(conn net.Conn, p *port) *clientConn {
	c := &clientConn{Conn: rawconn.Of(conn), port: p, address: conn.RemoteAddr().String()}
	if host, _, err := net.SplitHostPort(c.address); err == nil {
		c.address = host
	}
	return c
}

// Read reads what was read already, and then goes on.
func (c *clientConn) Read(p []byte) (int, error) {
	if len(c.early) == 0 {
		return c.Conn.Read(p) //nolint:wrapcheck // a pass-through
	}
	n := copy(p, c.early)
	if c.early = c.early[n:]; len(c.early) == 0 {
		c.early = nil
	}
	return n, nil
}

// CloseWrite tells the client that nothing more comes.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite() //nolint:wrapcheck // a pass-through
	}
	return net.ErrClosed
}

// Close closes the connection, and gives back what it has taken up.
func (c *clientConn) Close() error {
	err := c.Conn.Close()
	c.closing.Do(func() {
		c.upstreams.close()
		c.port.proxy.clients.remove(c)
	})
	return err //nolint:wrapcheck // a pass-through
}

type clientConnKey struct{}

// withConn has the handler find the connection of a request.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, clientConnKey{}, conn)
}

func connOf(ctx context.Context) *clientConn {
	c, _ := ctx.Value(clientConnKey{}).(*clientConn)
	return c
}

// clients are all connections of clients.
type clients struct {
	most    int
	metrics *metrics

	mu    sync.Mutex
	conns map[*clientConn]struct{}
	held  tally
}

// add holds a connection, or reports that there are too many.
func (c *clients) add(conn *clientConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.conns) >= c.most {
		c.metrics.refused.Inc()
		return false
	}
	c.conns[conn] = struct{}{}
	c.held.add()
	c.metrics.connections.Set(float64(len(c.conns)))
	return true
}

func (c *clients) remove(conn *clientConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.conns[conn]; !ok {
		return
	}
	delete(c.conns, conn)
	c.held.done()
	c.metrics.connections.Set(float64(len(c.conns)))
}

// watch has the clients watched whose requests take long.
func (c *clients) watch(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		if gone := conn.gone.Load(); gone != nil {
			gone.look(now)
		}
	}
}

// closeAll closes what is left.
func (c *clients) closeAll() {
	c.mu.Lock()
	left := make([]*clientConn, 0, len(c.conns))
	for conn := range c.conns {
		left = append(left, conn)
	}
	c.mu.Unlock()
	for _, conn := range left {
		_ = conn.Close()
	}
}

// tally counts what is under way, and tells when nothing is.
type tally struct {
	mu sync.Mutex
	n  int
	// none, if set, is closed when nothing is.
	none chan struct{}
}

func (t *tally) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

func (t *tally) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.none != nil {
		close(t.none)
		t.none = nil
	}
}

// some reports whether something is under way.
func (t *tally) some() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n > 0
}

// empty returns a channel that is closed when nothing is under way.
func (t *tally) empty() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if t.none == nil {
		t.none = make(chan struct{})
	}
	return t.none
}
