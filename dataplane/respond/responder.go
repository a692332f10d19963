// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package respond

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

// HeaderAuditID tells a caller which line of the audit log is theirs, so that they can be helped.
const HeaderAuditID = "Audit-Id"

// unreadBody is how long net/http may wait for the rest of a body that nobody read before it
// sends our answer: it drains bodies to keep the connection. Without a bound, an upload that
// never arrives would hold a request that was refused long ago, and needs no identity for it.
const unreadBody = 5 * time.Second

// Writer is the answer's side of a request, and the response writer that the steps write to: it counts
// what goes in and out, and keeps a stalled client from holding the request for ever.
type Writer struct {
	http.ResponseWriter
	// control sets deadlines on, flushes and hijacks the connection.
	control http.ResponseController
	// conn is the connection of an HTTP/1 request; nil if it is not one of the verbs' listener.
	conn  *rawconn.Conn
	http1 bool
	// observer is told that a body arrives.
	observer bodyObserver
	Stall    time.Duration
	// writeBy is the write deadline that is set; zero for none.
	writeBy time.Time

	// Stalled is set when the caller stopped in the middle of the body, or takes nothing of the
	// answer.
	Stalled atomic.Bool
	// Broken is set when the body is not framed as HTTP wants it.
	Broken atomic.Bool
	// bodyRead is set when all of the body was read, or there is none.
	bodyRead atomic.Bool
	// reading guards the body's deadline against stopBody.
	reading sync.Mutex
	stopped bool

	// AuditID is in the audit log and in the answer; empty when nothing is audited.
	AuditID string

	Status   atomic.Int64
	BytesIn  atomic.Int64
	BytesOut atomic.Int64
}

// bodyObserver is told of each part of a body that arrives.
type bodyObserver interface{ Progress() }

// Begin takes over a request's writer. A write or a read that makes no progress for stall ends it.
// conn is the connection of an HTTP/1 request, if it is known.
func (r *Writer) Begin(w http.ResponseWriter, in *http.Request, conn *rawconn.Conn, stall time.Duration, observer bodyObserver) {
	r.ResponseWriter, r.control, r.Stall, r.observer = w, *http.NewResponseController(w), stall, observer
	if r.http1 = in.ProtoMajor == 1; r.http1 {
		r.conn = conn
	}
}

// Count returns the request with a body that is counted, if it has one.
func (r *Writer) Count(in *http.Request) *http.Request {
	if in.Body == nil || in.Body == http.NoBody {
		r.bodyRead.Store(true)
		return in
	}
	// A deadline that an earlier request left on the connection must not hit what net/http
	// writes by itself when the body is read: 100 Continue.
	_ = r.control.SetWriteDeadline(time.Time{})
	// A copy: net/http must find its own body in its own request. With another there it
	// does not notice that the body was left unread or broken, and reads the rest of the
	// connection as the next request.
	out := in.WithContext(in.Context())
	out.Body = &countedBody{ReadCloser: in.Body, responder: r}
	return out
}

// Code is the status that was sent, or 0.
func (r *Writer) Code() int { return int(r.Status.Load()) }

// WriteHeader implements http.ResponseWriter. Informational answers of a pod end here: their
// headers would pass without our filter.
func (r *Writer) WriteHeader(code int) {
	if code < http.StatusOK {
		return
	}
	if r.Status.CompareAndSwap(0, int64(code)) {
		if r.AuditID != "" {
			r.Header()[HeaderAuditID] = []string{r.AuditID}
		}
		r.ResponseWriter.WriteHeader(code)
	}
}

// Write implements http.ResponseWriter. Each write has its own deadline, so that a client that
// takes nothing is cut and one that is slow is not.
func (r *Writer) Write(p []byte) (int, error) {
	if r.Code() == 0 {
		r.WriteHeader(http.StatusOK)
	}
	deadline := r.setDeadlines()
	n, err := r.writeWhole(p)
	r.noteStall(err, deadline)
	r.clearDeadlines()
	r.BytesOut.Add(int64(n))
	return n, err
}

// serverBuffer is what net/http gathers of an answer before it writes to the connection.
const serverBuffer = 4 << 10

// writeWhole has what net/http writes in parts, its buffer and then the rest, leave as one. TLS cuts
// it into more parts. Not on HTTP/2, where other streams share the connection.
func (r *Writer) writeWhole(p []byte) (int, error) {
	if len(p) > serverBuffer && r.conn != nil {
		r.conn.Cork()
		defer r.conn.Uncork()
	}
	return r.ResponseWriter.Write(p)
}

// FlushError implements what http.ResponseController flushes with.
func (r *Writer) FlushError() error {
	deadline := r.setDeadlines()
	err := r.control.Flush()
	r.noteStall(err, deadline)
	r.clearDeadlines()
	return err
}

// noteStall tells a caller that took nothing until the deadline from one that left. By the clock:
// HTTP/2 does not say why it has reset the stream.
func (r *Writer) noteStall(err error, deadline time.Time) {
	if err != nil && !time.Now().Before(deadline) {
		r.Stalled.Store(true)
	}
}

// setDeadlines bounds what is written next, and what net/http reads before it writes. Not every
// writer has deadlines (tests' recorders have none); then there is no limit. It returns until
// when what is written must be taken.
func (r *Writer) setDeadlines() time.Time {
	write := time.Now().Add(r.Stall)
	if r.bodyRead.Load() && write.Sub(r.writeBy) < r.Stall/8 {
		return r.writeBy // near enough
	}
	if !r.bodyRead.Load() {
		read := min(r.Stall, unreadBody)
		_ = r.control.SetReadDeadline(time.Now().Add(read))
		write = write.Add(read) // net/http reads first and writes then
	}
	_ = r.control.SetWriteDeadline(write)
	r.writeBy = write
	return write
}

// clearDeadlines is called when something was written. A stream may be quiet after it for as
// long as it likes: on HTTP/2 a write deadline that passes resets even a quiet stream, and
// on HTTP/1 a read deadline that passes looks as if the caller had left. A write deadline that
// passes on a quiet HTTP/1 connection does nothing, and before the next write there is another.
func (r *Writer) clearDeadlines() {
	if !r.http1 {
		_ = r.control.SetWriteDeadline(time.Time{})
		r.writeBy = time.Time{}
	}
	if !r.bodyRead.Load() {
		_ = r.control.SetReadDeadline(time.Time{})
	}
}

// FinishBody bounds what net/http still has to read and to flush after the handler. The next request on
// the connection sets its own deadlines.
func (r *Writer) FinishBody() { r.setDeadlines() }

// Hijack takes the connection from net/http.
func (r *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return r.control.Hijack() //nolint:wrapcheck // the caller says what for
}

// Release lets go of what only an answer needs, for a connection that was switched.
func (r *Writer) Release() { r.ResponseWriter, r.control = nil, http.ResponseController{} }

// Unwrap lets http.ResponseController reach the connection.
func (r *Writer) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// countedBody counts a request's body and keeps a stalled client from holding the request.
type countedBody struct {
	io.ReadCloser
	responder *Writer
}

func (b *countedBody) Read(p []byte) (int, error) {
	deadline := time.Now().Add(b.responder.Stall)
	if !b.responder.bodyDeadline(deadline) {
		return 0, errBodyStopped
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.responder.bodyRead.Store(true)
	}
	// Looked at before stopped is: net/http ends the request's context when its read fails, and
	// who stops the body for that must find out that the caller stalled. The clock tells this
	// deadline from the one that stops.
	if errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(deadline) {
		b.responder.Stalled.Store(true)
	}
	// Without this the deadline would outlive the body: net/http watches the connection for
	// the client's leaving, and a deadline there looks like one.
	if !b.responder.bodyDeadline(time.Time{}) {
		return n, errBodyStopped
	}
	b.responder.BytesIn.Add(int64(n))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, err
	case err != nil && !errors.Is(err, io.EOF):
		b.responder.Broken.Store(true)
	}
	b.responder.observer.Progress()
	return n, err
}

// errBodyStopped ends a body that nobody wants any more.
var errBodyStopped = errors.New("the answer was complete before the body")

// bodyDeadline sets the body's deadline, unless the body was stopped.
func (r *Writer) bodyDeadline(t time.Time) bool {
	r.reading.Lock()
	defer r.reading.Unlock()
	if !r.stopped {
		_ = r.control.SetReadDeadline(t)
	}
	return !r.stopped
}

// StopBody makes a read of the body that waits for the caller, and every later one, fail.
func (r *Writer) StopBody() {
	r.reading.Lock()
	defer r.reading.Unlock()
	r.stopped = true
	// Once all of the body is there, net/http watches the connection for the next request. A
	// deadline would end its watch, and with that the context of every later request on it.
	if !r.bodyRead.Load() {
		_ = r.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// Upload returns the body on its way to a pod, which may be so many bytes long.
func (r *Writer) Upload(body io.ReadCloser, most int64) io.ReadCloser {
	return upload{http.MaxBytesReader(r.ResponseWriter, body, most), r}
}

// upload is the body on its way to a pod.
type upload struct {
	io.ReadCloser
	responder *Writer
}

// Stop implements http1.Stopper.
func (u upload) Stop() { u.responder.StopBody() }
