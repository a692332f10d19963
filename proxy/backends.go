// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/http1"
	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

const (
	// keptBaseline and keptCopy are how many idle connections of HTTP/1.1 are kept to a port of the baseline, and to a
	// copy; keptCopies to all of them.
	keptBaseline = 1024
	keptCopy     = 64
	keptCopies   = 1024
	// keptFor is how long one is kept unused, and keptAge how old it gets: a Service spreads connections over its pods,
	// not requests, so that a connection that is kept for ever would never reach a new pod.
	keptFor = time.Minute
	keptAge = time.Minute
	// freshFor is how recently a connection must have been used to carry a request that must not be sent twice. Servers
	// close what was idle for some seconds, and a request that meets the close on its way is lost.
	freshFor = time.Second
	// http2KeptFor is how long a connection of HTTP/2 to a backend is kept unused while its client is connected.
	http2KeptFor = 5 * time.Minute
)

// newDialer returns what connects to the baseline and to copies. untaken is BackendUntakenTimeout outside of tests.
func newDialer(untaken time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: DialTimeout, KeepAliveConfig: backendKeepAlive,
		Control: func(_, _ string, conn syscall.RawConn) error { return limitUntaken(conn, untaken) },
	}
}

// backendKeepAlive finds out within BackendSilentTimeout that a backend is not there any more, over HTTP. The kernels do it,
// and not the PING of HTTP/2: servers of gRPC end a connection that has one more often than each five minutes while its
// streams are silent, and a copy that stands in a debugger answers none.
var backendKeepAlive = net.KeepAliveConfig{Enable: true, Idle: BackendSilentTimeout / 2, Interval: BackendSilentTimeout / 6, Count: 3}

// keepAlive finds out within two minutes that the other side is not there any more.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}

func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := p.dialer.DialContext(ctx, "tcp", absolute(address, p.domain))
	if err == nil || ctx.Err() == nil { // what a client gave up says nothing
		p.reach.note(address, err)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // failure looks at its type, and says what it is about
	}
	return rawconn.Of(conn), nil
}

// newHTTP1 returns the client of HTTP/1.1 for the baseline's ports or for copies. Each has its own, so that idle connections
// to copies take no place of the baseline's.
func (p *Proxy) newHTTP1(copies bool) *http1.Transport {
	t := &http1.Transport{
		Upstream: http1Upstream{proxy: p, copies: copies}, MaxHeaderBytes: MaxHeaderBytes, MaxIdlePerHost: keptBaseline, MaxIdle: keptBaseline * 4,
		IdleTimeout: keptFor, MaxAge: keptAge, FreshFor: freshFor, RepeatKeptOnly: true, Informational: hint,
	}
	if copies {
		t.MaxIdlePerHost, t.MaxIdle = keptCopy, keptCopies
	}
	return t
}

// http1Upstream connects the client of HTTP/1.1; its hosts are addresses.
type http1Upstream struct {
	proxy  *Proxy
	copies bool
}

// Dial implements http1.Upstream.
func (u http1Upstream) Dial(ctx context.Context, address string) (net.Conn, http1.Peer, error) {
	conn, err := u.proxy.dial(ctx, address)
	return conn, http1Peer{u, address, conn}, err
}

type http1Peer struct {
	http1Upstream

	address string
	conn    net.Conn
}

// Serves implements http1.Peer: a connection to a copy that no rule leads to any more is not kept.
func (p http1Peer) Serves() bool { return !p.copies || p.proxy.state.table.Load().Leads(p.address) }

// AppendHeader implements http1.Peer. It adds nothing: it is where a request learns its connection.
func (p http1Peer) AppendHeader(head []byte, req *http.Request) []byte {
	if x, ok := req.Context().Value(exchangeKey{}).(*exchange); ok && req.Body != nil {
		x.uploadOn(p.conn)
	}
	return head
}

// upstreams are the clients of HTTP/2 of one client's connection, by address: each backend has a connection of its own for
// each. A Service spreads connections over its pods, so that one connection for the requests of all clients would have
// one pod answer all of them, and a client that reads nothing would have the others wait.
type upstreams struct {
	mu        sync.Mutex
	byAddress map[string]*http.Transport
	closed    bool
}

func (u *upstreams) to(p *Proxy, address string) *http.Transport {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.byAddress[address]; t != nil {
		return t
	}
	t := newHTTP2(p)
	if u.byAddress == nil {
		u.byAddress = map[string]*http.Transport{}
	}
	u.byAddress[address] = t
	return t
}

func newHTTP2(p *Proxy) *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return p.dial(ctx, address) },
		Protocols:   new(http.Protocols), DisableCompression: true, MaxResponseHeaderBytes: MaxHeaderBytes,
		IdleConnTimeout: http2KeptFor, ExpectContinueTimeout: time.Second,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: http2StreamWindow, MaxReceiveBufferPerConnection: http2ConnectionWindow,
		},
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

// close closes connections that no request uses; those that one uses follow by done.
func (u *upstreams) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for _, t := range u.byAddress {
		t.CloseIdleConnections()
	}
}

// done is called when a request has ended.
func (u *upstreams) done(t *http.Transport) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		t.CloseIdleConnections()
	}
}

// copyStreamsError means that a connection of HTTP/2 has as many requests with copies as it may.
type copyStreamsError struct{}

func (copyStreamsError) Error() string {
	return fmt.Sprintf("%d requests of this HTTP/2 connection are with copies, which is the most", MaxHTTP2CopyStreams)
}
