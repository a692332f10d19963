// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

// boundedListener holds no more connections than the limits say; more wait in the kernel. Of one
// address it holds fewer, so that one client cannot take all: what is above is closed at once. It
// learns of their end from the server's ConnState hook, and does not wrap them but as the relay
// expects it, which could neither splice nor half-close what is hidden from it.
type boundedListener struct {
	net.Listener
	limits func() *limit.Limits
	// refused is called for each connection that is closed for its address's limit.
	refused func()
	// ended is told of each other one, when it is closed, what it was at.
	ended func(during string)

	mu        sync.Mutex
	room      sync.Cond
	held      int
	byAddress map[string]int
	closed    bool
}

func newBoundedListener(l net.Listener, limits func() *limit.Limits, m *record.Metrics) *boundedListener {
	b := &boundedListener{
		Listener: l, limits: limits, byAddress: map[string]int{},
		refused: func() { m.Refusals.Get(refusal.CauseConnections).Inc() },
		ended:   func(during string) { m.ConnectionsEnded.Get(during).Inc() },
	}
	b.room.L = &b.mu
	return b
}

// Accept waits for room and then for a connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		if err := l.reserve(); err != nil {
			return nil, err
		}
		conn, err := l.Listener.Accept()
		if err != nil {
			l.release("")
			return nil, err //nolint:wrapcheck // net/http looks at its type
		}
		if l.admit(access.AddressOf(conn.RemoteAddr().String())) {
			return rawconn.Of(conn), nil
		}
		l.refused()
		_ = conn.Close()
		l.release("")
	}
}

func (l *boundedListener) reserve() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held >= l.limits().Connections && !l.closed {
		l.room.Wait()
	}
	if l.closed {
		return fmt.Errorf("accepting: %w", net.ErrClosed)
	}
	l.held++
	return nil
}

func (l *boundedListener) admit(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byAddress[address] >= l.limits().ConnectionsPerAddress {
		return false
	}
	l.byAddress[address]++
	return true
}

// release gives a place back; address is empty for a connection that was not admitted.
func (l *boundedListener) release(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held--
	if address != "" {
		if l.byAddress[address]--; l.byAddress[address] == 0 {
			delete(l.byAddress, address)
		}
	}
	l.room.Signal()
}

// look has a waiting Accept look at the limits again.
func (l *boundedListener) look() { l.room.Broadcast() }

// count is how many connections are held.
func (l *boundedListener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Close stops accepting.
func (l *boundedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.room.Broadcast()
	return l.Listener.Close() //nolint:wrapcheck // a pass-through
}

// observe is the server's ConnState hook. An upgraded connection gives its place back: it is
// bounded as a stream then. The server says active when it has read a header or failed to; when
// that is not the connection's first, and failed in what was read of it at once, it says nothing.
func (l *boundedListener) observe(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
	case http.StateActive:
		phaseOf(conn).Store(phaseHeader)
	case http.StateIdle:
		phaseOf(conn).Store(phaseIdle)
	case http.StateClosed:
		l.ended(during(conn))
		l.release(access.AddressOf(conn.RemoteAddr().String()))
	case http.StateHijacked:
		l.release(access.AddressOf(conn.RemoteAddr().String()))
	}
}

// tlsConfig is what the data plane offers: TLS 1.2 at least, with HTTP/2.
func tlsConfig(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: certificate,
	}
}
