// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// Defaults of a Transport.
const (
	DefaultMaxHeaderBytes  = 64 << 10
	DefaultMaxIdlePerHost  = 256
	DefaultMaxIdle         = 4096
	DefaultIdleTimeout     = 60 * time.Second
	DefaultContinueTimeout = time.Second
	// MaxHeaderLines is how many lines a header may have, informational ones included: each costs
	// whoever reads it far more than its bytes, and thousands of empty ones fit into MaxHeaderBytes.
	MaxHeaderLines = 256
	// MaxTrailerFields is how many fields may follow a chunked answer's last chunk, and MaxTrailerBytes how
	// long they may be together, line ends included: they are read whole, into the buffer of the header.
	MaxTrailerFields = 128
	MaxTrailerBytes  = readBuffer
	// maxInformational is how many 1xx answers one request may get; more would keep it, and
	// whoever waits for it, busy for nothing.
	maxInformational = 8
)

var (
	// ErrHeaderTooLarge means that an answer's header is larger than MaxHeaderBytes, or has more
	// than some 256 lines.
	ErrHeaderTooLarge = errors.New("http1: the answer's header is too large")
	// ErrInformational means that more informational answers came than any server needs.
	ErrInformational = errors.New("http1: too many informational answers")
	// ErrTrailerTooLarge means that more follows a chunked answer than MaxTrailerFields or MaxTrailerBytes allow.
	ErrTrailerTooLarge = errors.New("http1: the answer's trailer has more than 128 fields or 4096 bytes")
	// ErrMalformed means that the answer is no HTTP/1.x. Its text does not quote the answer.
	ErrMalformed = errors.New("http1: malformed answer")
	// ErrTLS means that the peer answered with a TLS alert, as a server of TLS answers plain HTTP.
	ErrTLS = errors.New("http1: the peer speaks TLS")
	// ErrClosed means that the peer ended the connection before the first byte of an answer.
	ErrClosed = errors.New("http1: the connection ended before an answer")
	// ErrRequest means that the request cannot be written as HTTP/1.1.
	ErrRequest = errors.New("http1: malformed request")
)

// Upstream says what stands behind the hosts of requests. Hosts are keys of the caller's; nothing
// looks them up.
type Upstream interface {
	// Dial makes a connection for a host and says what it leads to.
	Dial(ctx context.Context, host string) (net.Conn, Peer, error)
}

// Peer is what one connection leads to.
type Peer interface {
	// Serves reports whether the peer still stands behind the host that it was dialled for, so
	// that its connection may be used again.
	Serves() bool
	// AppendHeader appends to the header of a request that is about to be sent what is the
	// connection's own to say: whole lines, or nothing.
	AppendHeader(head []byte, req *http.Request) []byte
}

// Transport is an http.RoundTripper. Its fields must not change once it is used.
type Transport struct {
	Upstream Upstream
	// MaxHeaderBytes bounds the header of an answer. Defaults to DefaultMaxHeaderBytes.
	MaxHeaderBytes int64
	// MaxIdlePerHost and MaxIdle bound the connections that are kept. They default to
	// DefaultMaxIdlePerHost and DefaultMaxIdle.
	MaxIdlePerHost, MaxIdle int
	// IdleTimeout is how long a connection is kept. Defaults to DefaultIdleTimeout.
	IdleTimeout time.Duration
	// ContinueTimeout is how long the body of a request with Expect: 100-continue waits for
	// the word. Defaults to DefaultContinueTimeout.
	ContinueTimeout time.Duration
	// MaxAge, if set, is how old a connection may be and still be kept. A name that stands for several pods gets new
	// connections to all of them by it.
	MaxAge time.Duration
	// FreshFor, if set, is how recently a kept connection must have been used to carry a request that is not sent twice.
	// One that has been idle for longer may be ended by its peer in the very moment in which the request is on its way.
	FreshFor time.Duration
	// RepeatKeptOnly has a request be sent again only if its connection was a kept one. The end of a new one, which the
	// peer accepted for this request, is then the answer.
	RepeatKeptOnly bool
	// Informational, if set, is called for each informational answer but 100 (Continue), on the goroutine of RoundTrip.
	Informational func(req *http.Request, code int, header http.Header)

	pool pool
}

// RoundTrip implements http.RoundTripper. Beyond its contract:
//
//   - A path in the URL's Opaque, which begins with a slash, is sent byte for byte, as RawQuery is.
//   - The context may end the exchange until the answer's body has been closed.
//   - The body of the request may be read until the answer's body has been closed; Close waits for
//     that (see Stopper). It is not closed: it is a server's, which closes it itself.
//   - After 101 the answer's body yields what was read beyond the header and then fails at the
//     connection's read deadline. A httptrace.ClientTrace gets the connection of requests with an
//     Upgrade header (GotConn, and no other hook).
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	for first := true; ; first = false {
		c, kept, err := t.connect(req, first)
		if err != nil {
			return nil, err
		}
		res, err := c.exchange(req)
		if err == nil {
			return res, nil
		}
		if !first || !kept && t.RepeatKeptOnly || !errors.Is(err, ErrClosed) || !repeatable(req) {
			return nil, err
		}
	}
}

// connect finds a kept connection or makes one, and tells which. Only the first attempt may take a kept one.
func (t *Transport) connect(req *http.Request, first bool) (c *conn, kept bool, err error) {
	host := req.URL.Host
	if first && !req.Close {
		if c := t.pool.take(host, t.freshFor(req)); c != nil {
			return c, true, nil
		}
	}
	nc, peer, err := t.Upstream.Dial(req.Context(), host)
	if err != nil {
		return nil, false, fmt.Errorf("connecting: %w", err)
	}
	c = newConn(t, nc, host, peer)
	if len(req.Header["Upgrade"]) > 0 {
		if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{Conn: nc})
		}
	}
	return c, false, nil
}

// freshFor is how long a connection for a request may have been idle; 0 for as long as connections are kept.
func (t *Transport) freshFor(req *http.Request) time.Duration {
	if t.FreshFor == 0 || repeatable(req) {
		return 0
	}
	return t.FreshFor
}

// repeatable tells whether a request may be sent twice: RFC 9110 section 9.2.2 allows more methods,
// but what a tenant's app makes of a second DELETE is its own affair.
func repeatable(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return !hasBody(req) && req.Context().Err() == nil
	}
	return false
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// length is how long a request's body is; negative if that is not known.
func length(req *http.Request) int64 {
	if req.ContentLength == 0 && hasBody(req) {
		return -1 // what 0 means to net/http's clients
	}
	return req.ContentLength
}

// CloseIdleConnections closes the connections that no exchange uses.
func (t *Transport) CloseIdleConnections() { t.pool.closeAll() }

func (t *Transport) maxHeaderBytes() int64 { return or(t.MaxHeaderBytes, DefaultMaxHeaderBytes) }

func or[T int | int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}
