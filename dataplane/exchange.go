// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// unreadBody is how long net/http may wait for the rest of a body that nobody read before it
// sends our answer: it drains bodies to keep the connection. Without a bound, an upload that
// never arrives would hold a request that was refused long ago, and needs no identity for it.
const unreadBody = 5 * time.Second

// exchange is one request on its way through the steps, and what is known of it so far. It is
// also the response writer that the steps write to: it counts, and it keeps a stalled client
// from holding the request for ever.
type exchange struct {
	http.ResponseWriter
	request *http.Request
	// control sets deadlines on, flushes and hijacks the connection.
	control http.ResponseController
	stall   time.Duration
	// writeBy is the write deadline that is set; zero for none.
	writeBy time.Time
	started time.Time
	// ends is what atEnd was told; its first ones lie in endsRoom.
	ends     []func()
	endsRoom [8]func()
	// relay is set once the connection is switched: it carries the rest, without the handler.
	relay *relay
	// untie is set for what may outlive the handler; see outlive.
	untie func() bool

	// Filled in by the steps, for those that follow, metrics and the access line.
	route    route
	kind     *kind
	question question
	isStream bool
	// longest bounds how long a stream of this endpoint lasts; zero leaves it to the limits.
	longest time.Duration
	// onPreview is set on a preview's host; preview is what was sealed for it, once it is open.
	onPreview bool
	preview   *preview.Claims
	// use is that of the instance; nil while the request is no use of one.
	use *use
	// cause is why the request was refused or cut; empty when it was not.
	cause string
	// refused is set when cause kept the request from any answer but ours; it is not when an
	// answer that had begun was cut.
	refused bool
	// err is more about cause, for the access line; it never holds a credential.
	err error

	// supervisor ends the request, on its way to the pod, before its time.
	supervisor supervisor
	// stalled is set when the caller stopped in the middle of the body, or takes nothing of the
	// answer.
	stalled atomic.Bool
	// broken is set when the body is not framed as HTTP wants it.
	broken atomic.Bool
	// bodyRead is set when all of the body was read, or there is none.
	bodyRead atomic.Bool
	// reading guards the body's deadline against stopBody.
	reading sync.Mutex
	stopped bool

	// auditID is in the audit log and in the answer; empty when nothing is audited.
	auditID string
	// auditStarted is set when the audit log has a line for the begin of this stream.
	auditStarted bool
	// authenticatedBy tells how the caller was identified: one of the constants in identify.go.
	authenticatedBy string
	// id is the object that kcp has let the caller use; zero until then.
	id placement.ID
	// span is that of the request; nil when nothing is traced.
	span trace.Span
	// traceID leads to the request's trace; empty if it is not recorded.
	traceID string
	// sent is when the request went towards the pod, firstByte how long the pod then took to
	// begin its answer; zero if it did not.
	sent      time.Time
	firstByte time.Duration

	status   atomic.Int64
	bytesIn  atomic.Int64
	bytesOut atomic.Int64
}

func newExchange(w http.ResponseWriter, r *http.Request, stall time.Duration) *exchange {
	x := &exchange{ResponseWriter: w, request: r, control: *http.NewResponseController(w), stall: stall, started: time.Now()}
	x.ends = x.endsRoom[:0]
	if isUpgrade(r.Header) {
		x.outlive()
		r = x.request
	}
	if r.Body != nil && r.Body != http.NoBody {
		// A deadline that an earlier request left on the connection must not hit what net/http
		// writes by itself when the body is read: 100 Continue.
		_ = x.control.SetWriteDeadline(time.Time{})
		// A copy: net/http must find its own body in its own request. With another there it
		// does not notice that the body was left unread or broken, and reads the rest of the
		// connection as the next request.
		x.request = r.WithContext(r.Context())
		x.request.Body = &countedBody{ReadCloser: r.Body, exchange: x}
	} else {
		x.bodyRead.Store(true)
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
		if x.auditID != "" {
			x.Header()[headerAuditID] = []string{x.auditID}
		}
		x.ResponseWriter.WriteHeader(code)
	}
}

// Write implements http.ResponseWriter. Each write has its own deadline, so that a client that
// takes nothing is cut and one that is slow is not.
func (x *exchange) Write(p []byte) (int, error) {
	if x.code() == 0 {
		x.WriteHeader(http.StatusOK)
	}
	deadline := x.setDeadlines()
	n, err := x.writeWhole(p)
	x.noteStall(err, deadline)
	x.clearDeadlines()
	x.bytesOut.Add(int64(n))
	return n, err
}

// serverBuffer is what net/http gathers of an answer before it writes to the connection.
const serverBuffer = 4 << 10

// writeWhole has what net/http writes in parts, its buffer and then the rest, leave as one. TLS cuts
// it into more parts. Not on HTTP/2, where other streams share the connection.
func (x *exchange) writeWhole(p []byte) (int, error) {
	if len(p) > serverBuffer && x.request.ProtoMajor == 1 {
		if conn := connOf(x.request); conn != nil {
			conn.Cork()
			defer conn.Uncork()
		}
	}
	return x.ResponseWriter.Write(p)
}

// FlushError implements what http.ResponseController flushes with.
func (x *exchange) FlushError() error {
	deadline := x.setDeadlines()
	err := x.control.Flush()
	x.noteStall(err, deadline)
	x.clearDeadlines()
	return err
}

// noteStall tells a caller that took nothing until the deadline from one that left. By the clock:
// HTTP/2 does not say why it has reset the stream.
func (x *exchange) noteStall(err error, deadline time.Time) {
	if err != nil && !time.Now().Before(deadline) {
		x.stalled.Store(true)
	}
}

// setDeadlines bounds what is written next, and what net/http reads before it writes. Not every
// writer has deadlines (tests' recorders have none); then there is no limit. It returns until
// when what is written must be taken.
func (x *exchange) setDeadlines() time.Time {
	write := time.Now().Add(x.stall)
	if x.bodyRead.Load() && write.Sub(x.writeBy) < x.stall/8 {
		return x.writeBy // near enough
	}
	if !x.bodyRead.Load() {
		read := min(x.stall, unreadBody)
		_ = x.control.SetReadDeadline(time.Now().Add(read))
		write = write.Add(read) // net/http reads first and writes then
	}
	_ = x.control.SetWriteDeadline(write)
	x.writeBy = write
	return write
}

// clearDeadlines is called when something was written. A stream may be quiet after it for as
// long as it likes: on HTTP/2 a write deadline that passes resets even a quiet stream, and
// on HTTP/1 a read deadline that passes looks as if the caller had left. A write deadline that
// passes on a quiet HTTP/1 connection does nothing, and before the next write there is another.
func (x *exchange) clearDeadlines() {
	if x.request.ProtoMajor != 1 {
		_ = x.control.SetWriteDeadline(time.Time{})
		x.writeBy = time.Time{}
	}
	if !x.bodyRead.Load() {
		_ = x.control.SetReadDeadline(time.Time{})
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// atEnd has something done when the exchange ends, the last first. Where defer would do it when
// the handler returns, this does it after an upgraded connection too.
func (x *exchange) atEnd(f func()) { x.ends = append(x.ends, f) }

// finish does what atEnd was told, and bounds what net/http still has to read and to flush after
// the handler. The next request on the connection sets its own deadlines.
func (x *exchange) finish() {
	for _, f := range slices.Backward(x.ends) {
		f()
	}
	if x.relay == nil {
		x.setDeadlines()
	}
}

// fail ends the exchange with a refusal. When the answer has begun it only notes the cause:
// the connection then ends in a way that the client can tell from a whole answer.
func (x *exchange) fail(e *refusal) {
	x.cause, x.err, x.refused = e.cause, e.err, x.code() == 0
	if e.code == statusClientClosedRequest {
		if x.status.CompareAndSwap(0, statusClientClosedRequest) {
			// net/http answers 200 for a handler that wrote nothing. Should the caller be
			// there after all, it must not take that for a success.
			panic(http.ErrAbortHandler)
		}
		return
	}
	if x.code() == 0 {
		if x.onPreview {
			writePreviewRefusal(x, x.request, e)
		} else {
			writeRefusal(x, x.request, e)
		}
	}
}

// began notes that a pod has begun its answer.
func (x *exchange) began() {
	x.supervisor.answered()
	x.firstByte = time.Since(x.sent)
}

// countedBody counts a request's body and keeps a stalled client from holding the request.
type countedBody struct {
	io.ReadCloser
	exchange *exchange
}

func (b *countedBody) Read(p []byte) (int, error) {
	deadline := time.Now().Add(b.exchange.stall)
	if !b.exchange.bodyDeadline(deadline) {
		return 0, errBodyStopped
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.exchange.bodyRead.Store(true)
	}
	// Looked at before stopped is: net/http ends the request's context when its read fails, and
	// who stops the body for that must find out that the caller stalled. The clock tells this
	// deadline from the one that stops.
	if errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(deadline) {
		b.exchange.stalled.Store(true)
	}
	// Without this the deadline would outlive the body: net/http watches the connection for
	// the client's leaving, and a deadline there looks like one.
	if !b.exchange.bodyDeadline(time.Time{}) {
		return n, errBodyStopped
	}
	b.exchange.bytesIn.Add(int64(n))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, err
	case err != nil && !errors.Is(err, io.EOF):
		b.exchange.broken.Store(true)
	}
	b.exchange.supervisor.progress()
	return n, err
}

// errBodyStopped ends a body that nobody wants any more.
var errBodyStopped = errors.New("the answer was complete before the body")

// bodyDeadline sets the body's deadline, unless the body was stopped.
func (x *exchange) bodyDeadline(t time.Time) bool {
	x.reading.Lock()
	defer x.reading.Unlock()
	if !x.stopped {
		_ = x.control.SetReadDeadline(t)
	}
	return !x.stopped
}

// stopBody makes a read of the body that waits for the caller, and every later one, fail.
func (x *exchange) stopBody() {
	x.reading.Lock()
	defer x.reading.Unlock()
	x.stopped = true
	// Once all of the body is there, net/http watches the connection for the next request. A
	// deadline would end its watch, and with that the context of every later request on it.
	if !x.bodyRead.Load() {
		_ = x.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// upload is the body on its way to a pod.
type upload struct {
	io.ReadCloser
	exchange *exchange
}

// Stop implements http1.Stopper.
func (u upload) Stop() { u.exchange.stopBody() }

// causeOf tells why a context ended, if one of our own limits ended it.
func causeOf(ctx context.Context) *refusal {
	var refused *refusal
	if errors.As(context.Cause(ctx), &refused) {
		return refused
	}
	return nil
}
