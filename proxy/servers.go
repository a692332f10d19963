// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// servers are net/http's, of a port: one for HTTP/1.1, and one for HTTP/2 with prior knowledge. A server of HTTP/2 is
// replaced by another to have all its connections told to go away: that is what its Shutdown does, and nothing is lost,
// since clients open new streams on new connections.
type servers struct {
	handler       http.Handler
	address       net.Addr
	headerTimeout time.Duration

	// ending is set when connections are not to be served any more.
	ending  atomic.Bool
	http1   *http.Server
	toHTTP1 *handoff

	mu      sync.Mutex
	http2   *http.Server
	toHTTP2 *handoff
	// leaving are servers whose connections were told to go away.
	leaving []*http.Server
	serving sync.WaitGroup
}

func newServers(handler http.Handler, address net.Addr, headerTimeout time.Duration) *servers {
	s := &servers{handler: handler, address: address, headerTimeout: headerTimeout}
	s.http1, s.toHTTP1 = s.start((*http.Protocols).SetHTTP1)
	s.http2, s.toHTTP2 = s.start((*http.Protocols).SetUnencryptedHTTP2)
	return s
}

// start starts a server of one protocol.
func (s *servers) start(protocol func(*http.Protocols, bool)) (*http.Server, *handoff) {
	server := &http.Server{
		Handler: s.handler, Protocols: new(http.Protocols), ConnContext: withConn, DisableGeneralOptionsHandler: true,
		MaxHeaderBytes: MaxHeaderBytes, ReadHeaderTimeout: s.headerTimeout, IdleTimeout: IdleTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: MaxHTTP2Streams, MaxReceiveBufferPerStream: http2StreamWindow,
			MaxReceiveBufferPerConnection: http2ConnectionWindow,
		},
		// What clients get wrong is theirs to know, and would fill the log.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	protocol(server.Protocols, true)
	from := &handoff{address: s.address, conns: make(chan net.Conn), closed: make(chan struct{})}
	s.serving.Go(func() { _ = server.Serve(from) })
	return server, from
}

// give has a connection served.
func (s *servers) give(c *clientConn, spoken spoken) {
	to := s.toHTTP1
	if spoken == http2Spoken {
		s.mu.Lock()
		defer s.mu.Unlock()
		to = s.toHTTP2
	}
	if !to.give(c) {
		_ = c.Close()
	}
}

// goAway tells all connections of HTTP/2 to go away. Requests that are under way go on.
func (s *servers) goAway(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.http2
	s.http2, s.toHTTP2 = s.start((*http.Protocols).SetUnencryptedHTTP2)
	s.leaving = append(s.leaving, before)
	s.serving.Go(func() {
		if before.Shutdown(ctx) == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.leaving = slices.DeleteFunc(s.leaving, func(other *http.Server) bool { return other == before })
		}
	})
}

// end ends the servers: requests under way have a time to finish, connections without one are closed.
func (s *servers) end(within time.Duration) {
	s.ending.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	s.mu.Lock()
	all := append([]*http.Server{s.http1, s.http2}, s.leaving...)
	s.mu.Unlock()
	var ended sync.WaitGroup
	for _, server := range all {
		ended.Go(func() {
			if server.Shutdown(ctx) != nil {
				_ = server.Close()
			}
		})
	}
	ended.Wait()
	s.serving.Wait()
}

// handoff is the listener of a server whose connections are accepted elsewhere.
type handoff struct {
	address net.Addr
	conns   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

// Accept implements net.Listener.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// give hands a connection to the server, or reports that it has ended.
func (h *handoff) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Close implements net.Listener.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *handoff) Addr() net.Addr { return h.address }
