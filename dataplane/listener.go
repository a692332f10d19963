// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// boundedListener accepts no more connections than it has slots; more wait in the kernel. It
// does not wrap connections (a wrapper would hide the TCP connection from splice and from
// half-close) and learns of their end from the server's ConnState hook.
type boundedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newBoundedListener(l net.Listener, connections int) *boundedListener {
	return &boundedListener{Listener: l, slots: make(chan struct{}, connections), closed: make(chan struct{})}
}

// Accept waits for a slot and then for a connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, fmt.Errorf("accepting: %w", net.ErrClosed)
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err //nolint:wrapcheck // net/http looks at its type
	}
	return conn, nil
}

// Close stops accepting.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close() //nolint:wrapcheck // a pass-through
}

// observe is the server's ConnState hook. An upgraded connection gives its slot back: it is
// bounded as a stream then.
func (l *boundedListener) observe(_ net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		<-l.slots
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
