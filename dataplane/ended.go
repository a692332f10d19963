// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

// net/http refuses a header by itself, before any handler of ours. What can be seen of that from
// outside is what a connection was at when it ended; of all its causes that tells none alone. Of
// HTTP/2 it tells what the caller did wrong.

// Values of the label during: what a connection was at. Its phase is the index.
var duringNames = [...]string{phaseNew: "new", phaseHeader: "header", phaseRequest: "request", phaseIdle: "idle"}

// duringHTTP2 is that of all HTTP/2 connections: net/http says that they idle before it says that
// they are closed, whatever their streams were at.
const duringHTTP2 = "http2"

// Values of the label error; net/http has some fifty names, most of them for frames that no client
// sends by mistake.
const (
	http2Streams = "streams"
	http2Resets  = "resets"
	http2Other   = "other"
)

// http2Error puts net/http's names of errors into few. They begin with what was ended and with the
// code that the caller was told, as in stream_PROTOCOL_ERROR_over_max_streams.
func http2Error(name string) string {
	switch {
	case strings.HasSuffix(name, "_over_max_streams"), strings.HasSuffix(name, "_over_max_streams_race"):
		return http2Streams
	case strings.HasSuffix(name, "_too_many_early_resets"): // CVE-2023-44487
		return http2Resets
	}
	return http2Other
}

const (
	phaseNew int32 = iota
	phaseHeader
	phaseRequest
	phaseIdle
)

// underneath is the TCP connection of one of the verbs' listener; nil if it ended before it was
// looked at.
func underneath(conn net.Conn) *rawconn.Conn {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	plain, _ := conn.(*rawconn.Conn)
	return plain
}

// phaseOf is where a connection has its phase.
func phaseOf(conn net.Conn) *atomic.Int32 {
	if plain := underneath(conn); plain != nil {
		return &plain.Note
	}
	return new(atomic.Int32)
}

// during is what a connection that has ended was at.
func during(conn net.Conn) string {
	if encrypted, ok := conn.(*tls.Conn); ok && encrypted.ConnectionState().NegotiatedProtocol == "h2" {
		return duringHTTP2
	}
	return duringNames[phaseOf(conn).Load()]
}

type connKey struct{}

// withConn is the server's ConnContext hook, by which connOf finds the connection.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, underneath(conn))
}

// connOf is the connection that a request came on; nil if it is not one of the verbs' listener, as
// in tests.
func connOf(r *http.Request) *rawconn.Conn {
	conn, _ := r.Context().Value(connKey{}).(*rawconn.Conn)
	return conn
}

// noteRequests notes that a handler has begun, of which no hook of the server tells.
func noteRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn := connOf(r); conn != nil {
			conn.Note.Store(phaseRequest)
		}
		next.ServeHTTP(w, r)
	})
}

// countFromTheStart makes the series of connections that end and of errors in HTTP/2: a counter that
// appears with its first increment has no rate for it.
func countFromTheStart(m *record.Metrics) {
	for _, during := range append(duringNames[:], duringHTTP2) {
		m.ConnectionsEnded.Get(during)
	}
	for _, name := range []string{http2Streams, http2Resets, http2Other} {
		m.HTTP2Errors.Get(name)
	}
}
