// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// exchange is a request and its answer. It is the context of the request that goes on, too, by which hint finds it.
type exchange struct {
	context.Context //nolint:containedctx // it is one

	port   *port
	client *clientConn
	w      http.ResponseWriter
	r      *http.Request
	began  time.Time

	// address is where the request goes, which is a copy of a sandbox if copied is set.
	address string
	copied  bool
	sandbox string
	// entered is set while the request has a place among those of copies.
	entered bool

	// status is what the client was answered with; 0 if it was not answered.
	status   int
	sent     int64
	upgraded bool
	// cause is set if there was no whole answer.
	cause string
	// uploaded, if set, is called at the end: the request has a body, and a connection.
	uploaded func() (lost bool)

	// hints guards w until the answer begins: informational answers of HTTP/2 come on another goroutine.
	hints   sync.Mutex
	started bool
}

type exchangeKey struct{}

// Value implements context.Context.
func (x *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return x
	}
	return x.Context.Value(key)
}

// ServeHTTP leads a request to the baseline or to a copy.
func (p *port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.serve(r.Context(), connOf(r.Context()), w, r)
}

// serve leads a request of a connection; ctx ends with it, or when its client has gone.
func (p *port) serve(ctx context.Context, c *clientConn, w http.ResponseWriter, r *http.Request) {
	x := &exchange{Context: ctx, port: p, client: c, w: w, r: r, began: time.Now(), address: p.of.Baseline}
	defer x.end() // also when the answer is broken off
	if err := x.serve(); err != nil {
		x.fail(err)
	}
}

func (x *exchange) serve() error {
	switch x.r.Method {
	case http.MethodConnect:
		return errTunnel
	case "PRI": // which net/http hands to handlers when it comes in the middle of a connection of HTTP/1.1
		return errPreface
	}
	backend, err := x.port.proxy.state.table.Load().Pick(x.r)
	if err != nil {
		return err //nolint:wrapcheck // fail says what it is about
	}
	if backend != nil {
		x.address, x.sandbox, x.copied = backend.Address, backend.Sandbox, true
		if err := x.enter(); err != nil {
			return err
		}
	}
	if protocols := protocolsOf(x.r); protocols != nil {
		return x.upgrade(protocols)
	}
	return x.forward()
}

// enter takes a place among the requests of copies. end gives it back.
func (x *exchange) enter() error {
	if err := x.port.proxy.slots.take(x.address, x.sandbox); err != nil {
		return err
	}
	x.entered = true
	if x.r.ProtoMajor == 2 && x.client.withCopies.Add(1) > MaxHTTP2CopyStreams {
		return copyStreamsError{}
	}
	return nil
}

// uploadOn has the connection's limits be those of one with a body on it, until the request has ended.
func (x *exchange) uploadOn(conn net.Conn) {
	x.endUpload() // it is sent again, on another
	x.uploaded = x.port.proxy.uploads.begin(conn)
}

// endUpload is for a request that needs its connection no more. It reports whether the other side of that is gone.
func (x *exchange) endUpload() (lost bool) {
	if x.uploaded != nil {
		lost = x.uploaded()
		x.uploaded = nil
	}
	return lost
}

func (x *exchange) end() {
	x.endUpload()
	if x.entered {
		x.port.proxy.slots.give(x.address, x.sandbox)
		if x.r.ProtoMajor == 2 {
			x.client.withCopies.Add(-1)
		}
	}
	x.record()
}

// closing has the client told that the connection ends with this answer: while it should go elsewhere, and after a request
// whose end another reader may see elsewhere. Over HTTP/2 net/http makes a GOAWAY of it.
func (x *exchange) closing() {
	if x.port.proxy.state.draining.Load() || isFramingDoubtful(x.r) {
		x.w.Header().Set("Connection", "close")
	}
}

// isFramingDoubtful reports whether two readers of a request may disagree about where it ends (RFC 9112 section 6.1). Whether
// a Content-Length came with chunks net/http does not tell, so that all chunked requests count, as at the data plane
// (docs/adr/0015-framing-between-fronts.md).
//
// The attack: a front before the proxy goes by the Content-Length, and the proxy takes the rest of an attacker's body for the
// request of the next client of that front.
func isFramingDoubtful(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0)
}
