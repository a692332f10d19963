// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// exchange is one request on its way through the steps, and what is known of it so far. It is
// also the response writer that the steps write to: it counts, and it keeps a stalled client
// from holding the request for ever.
type exchange struct {
	http.ResponseWriter
	request *http.Request
	// control sets deadlines on, flushes and hijacks the connection.
	control *http.ResponseController
	stall   time.Duration

	// Filled in by the steps, for those that follow, metrics and the access line.
	route    route
	kind     *kind
	question question
	isStream bool
	// cause is why the request was refused or cut; empty when it was not.
	cause string
	// err is more about cause, for the access line; it never holds a credential.
	err error

	// progress, if set, is called whenever the caller has sent some of the body.
	progress func()
	// stalled is set when the caller stopped in the middle of the body.
	stalled atomic.Bool

	status   atomic.Int64
	bytesIn  atomic.Int64
	bytesOut atomic.Int64
}

func newExchange(w http.ResponseWriter, r *http.Request, stall time.Duration) *exchange {
	x := &exchange{ResponseWriter: w, request: r, control: http.NewResponseController(w), stall: stall}
	// A deadline that an earlier request left on the connection must not hit this one.
	_ = x.control.SetWriteDeadline(time.Time{})
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &countedBody{ReadCloser: r.Body, exchange: x}
	}
	return x
}

// code is the status that was sent, or 0.
func (x *exchange) code() int { return int(x.status.Load()) }

// WriteHeader implements http.ResponseWriter. Informational answers of a pod end here: their
// headers would pass without our filter.
func (x *exchange) WriteHeader(code int) {
	if code < http.StatusOK {
		return
	}
	if x.status.CompareAndSwap(0, int64(code)) {
		x.ResponseWriter.WriteHeader(code)
	}
}

// Write implements http.ResponseWriter. Each write has its own deadline, so that a client that
// takes nothing is cut and one that is slow is not.
func (x *exchange) Write(p []byte) (int, error) {
	if x.code() == 0 {
		x.WriteHeader(http.StatusOK)
	}
	// Not every writer has deadlines (tests' recorders have none); then there is no limit.
	_ = x.control.SetWriteDeadline(time.Now().Add(x.stall))
	n, err := x.ResponseWriter.Write(p)
	// Cleared at once: on HTTP/2 a deadline that passes resets the stream, even a quiet one.
	_ = x.control.SetWriteDeadline(time.Time{})
	x.bytesOut.Add(int64(n))
	return n, err
}

// FlushError implements what http.ResponseController flushes with. A flush writes too, so it
// has a deadline of its own; a stream that is quiet after it must not run into that one.
func (x *exchange) FlushError() error {
	_ = x.control.SetWriteDeadline(time.Now().Add(x.stall))
	err := x.control.Flush()
	_ = x.control.SetWriteDeadline(time.Time{})
	return err
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// finish bounds what net/http still has to flush after the handler.
func (x *exchange) finish() {
	_ = x.control.SetWriteDeadline(time.Now().Add(x.stall))
}

// fail ends the exchange with a refusal. When the answer has begun it only notes the cause:
// the connection then ends in a way that the client can tell from a whole answer.
func (x *exchange) fail(e *refusal) {
	x.cause, x.err = e.cause, e.err
	if e.code == statusClientClosedRequest {
		x.status.CompareAndSwap(0, statusClientClosedRequest)
		return
	}
	if x.code() == 0 {
		writeRefusal(x, x.request, e)
	}
}

// countedBody counts a request's body and keeps a stalled client from holding the request.
type countedBody struct {
	io.ReadCloser
	exchange *exchange
}

func (b *countedBody) Read(p []byte) (int, error) {
	_ = b.exchange.control.SetReadDeadline(time.Now().Add(b.exchange.stall))
	n, err := b.ReadCloser.Read(p)
	// Without this the deadline would outlive the body: net/http watches the connection for
	// the client's leaving, and a deadline there looks like one.
	_ = b.exchange.control.SetReadDeadline(time.Time{})
	b.exchange.bytesIn.Add(int64(n))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.exchange.stalled.Store(true)
	} else if b.exchange.progress != nil {
		b.exchange.progress()
	}
	return n, err
}

// causeOf tells why a context ended, if one of our own limits ended it.
func causeOf(ctx context.Context) *refusal {
	refused, _ := context.Cause(ctx).(*refusal)
	return refused
}
