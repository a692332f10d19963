// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Stopper may be implemented by a request's body: Stop makes a Read that blocks, and every later
// one, fail at once. It is called when the answer has ended before the body was sent; without it
// the exchange lasts until the body's source says something.
type Stopper interface{ Stop() }

// heads lends buffers for the headers of requests.
var heads = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

// maxPooledHead keeps one large header from being held for ever.
const maxPooledHead = 16 << 10

// send writes the request's header, and starts to send its body if it has one.
func (b *body) send(req *http.Request) error {
	buf, _ := heads.Get().(*[]byte)
	head, err := b.conn.appendHead((*buf)[:0], req)
	if err == nil {
		if _, failed := b.conn.Conn.Write(head); failed != nil {
			err = ErrClosed
		}
	}
	if cap(head) <= maxPooledHead {
		*buf = head
		heads.Put(buf)
	}
	if err != nil || !hasBody(req) {
		return err
	}
	b.sending = &sending{body: req.Body, length: length(req), trailer: req.Trailer, to: b.conn.Conn, done: make(chan struct{}), quit: make(chan struct{})}
	if httpguts.HeaderValuesContainsToken(req.Header["Expect"], "100-continue") {
		b.sending.proceed = make(chan struct{})
	}
	go b.sending.run(or(b.conn.transport.ContinueTimeout, DefaultContinueTimeout))
	return nil
}

// appendHead writes the request line and the header. A value that could end its line is refused,
// whoever let it come this far: the rest of it would be headers, or a request, of their own.
func (c *conn) appendHead(b []byte, req *http.Request) ([]byte, error) {
	uri := target(req.URL)
	if !httpguts.ValidHeaderFieldName(req.Method) || !validTarget(uri) || !validTarget(req.Host) {
		return b, ErrRequest
	}
	b = append(append(append(append(b, req.Method...), ' '), uri...), " HTTP/1.1\r\nHost: "...)
	if req.Host != "" {
		b = append(b, req.Host...)
	} else {
		b = append(b, req.URL.Host...)
	}
	b = append(b, "\r\n"...)
	for name, values := range req.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // they are the request's own to state
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return b, ErrRequest
			}
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		}
	}
	if req.Close && len(req.Header["Connection"]) == 0 {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(c.peer.AppendHeader(appendLength(b, req), req), "\r\n"...), nil
}

// target is what is asked for, as the request line has it. net/url would take an Opaque that begins with two
// slashes for a host, and others write another way.
func target(u *url.URL) string {
	if !strings.HasPrefix(u.Opaque, "/") {
		return u.RequestURI()
	}
	if u.RawQuery == "" && !u.ForceQuery {
		return u.Opaque
	}
	return u.Opaque + "?" + u.RawQuery
}

// appendLength states the length of the body, in one way.
func appendLength(b []byte, req *http.Request) []byte {
	switch {
	case !hasBody(req):
		switch req.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch: // RFC 9110 section 8.6
			return append(b, "Content-Length: 0\r\n"...)
		}
		return b
	case length(req) > 0:
		b = append(b, "Content-Length: "...)
		return append(strconv.AppendInt(b, req.ContentLength, 10), "\r\n"...)
	}
	b = append(b, "Transfer-Encoding: chunked\r\n"...)
	for name := range req.Trailer {
		if validTrailer(name) {
			b = append(append(append(b, "Trailer: "...), name...), "\r\n"...)
		}
	}
	return b
}

// validTrailer reports whether a field may stand behind a body.
func validTrailer(name string) bool {
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidTrailerHeader(name)
}

// validTarget refuses what would end the request line or a header.
func validTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// sending is the body of a request on its way, on a goroutine of its own: the answer may come
// before all of it was sent.
type sending struct {
	body   io.Reader
	length int64 // negative: not known
	// trailer is what follows a body of unknown length. Its keys are announced, and its values are there when the body
	// has ended.
	trailer http.Header
	to      net.Conn
	done    chan struct{}
	// quit is closed when nobody waits for the body to be sent any more.
	quit chan struct{}
	// proceed is closed when the peer said 100 Continue; nil if that is not awaited.
	proceed chan struct{}
	said    bool
	// whole is set when all of the body was sent; valid once done is closed.
	whole bool
	// source is why the body could not be read; it is set before the connection is closed for it.
	source atomic.Pointer[error]
}

func (s *sending) run(patience time.Duration) {
	defer close(s.done)
	if !s.await(patience) {
		return
	}
	var to io.Writer = s.to
	if s.length < 0 {
		out := bufio.NewWriter(s.to)
		to = chunks{out, httputil.NewChunkedWriter(out)}
	}
	buf, _ := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	for left := s.length; left != 0; {
		part := buf[:]
		if left > 0 {
			part = part[:min(left, copyBuffer)]
		}
		n, err := s.body.Read(part)
		if n > 0 {
			if _, failed := to.Write(part[:n]); failed != nil {
				return // the peer may have answered already: reading will tell
			}
			if left > 0 {
				left -= int64(n)
			}
		}
		switch {
		case err == nil || err == io.EOF && left == 0:
		case err == io.EOF && left < 0:
			err := to.(chunks).end(s.trailer) //nolint:forcetypeassert // see above
			if s.whole = err == nil; errors.Is(err, ErrRequest) {
				s.fail(err) // the peer would wait for the rest
			}
			return
		default:
			s.fail(err)
			return
		}
	}
	s.whole = true
}

// fail ends the exchange: its answer would be one to half a request.
func (s *sending) fail(err error) {
	if err == io.EOF { //nolint:errorlint // a reader's plain EOF
		err = io.ErrUnexpectedEOF
	}
	s.source.Store(&err)
	_ = s.to.Close()
}

// failure is why the body could not be read, if that is so.
func (s *sending) failure() error {
	if s == nil {
		return nil
	}
	if err := s.source.Load(); err != nil {
		return *err
	}
	return nil
}

// await waits for 100 Continue, but not for long: not every server says it.
func (s *sending) await(patience time.Duration) bool {
	if s.proceed == nil {
		return true
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.proceed:
	case <-timer.C:
	case <-s.quit:
		return false
	}
	return true
}

// goOn passes 100 Continue on to the body.
func (s *sending) goOn() {
	if s != nil && s.proceed != nil && !s.said {
		s.said = true
		close(s.proceed)
	}
}

// complete tells whether all of the body, if there is one, was sent.
func (s *sending) complete() bool {
	return s == nil || isClosed(s.done) && s.whole
}

// wait stops the body and waits until nothing reads it any more. The connection must be closed
// unless the body was sent.
func (s *sending) wait() {
	if s == nil || isClosed(s.done) {
		return
	}
	if !isClosed(s.quit) {
		close(s.quit)
	}
	if stopper, ok := s.body.(Stopper); ok && s.failure() == nil {
		stopper.Stop()
	}
	<-s.done
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const copyBuffer = 32 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// chunks sends each write as a chunk, at once.
type chunks struct {
	out *bufio.Writer
	in  io.WriteCloser
}

func (c chunks) Write(p []byte) (int, error) {
	n, err := c.in.Write(p)
	if err == nil {
		err = c.out.Flush()
	}
	return n, err
}

// end ends the body with its trailer.
func (c chunks) end(trailer http.Header) error {
	if err := c.in.Close(); err != nil {
		return err //nolint:wrapcheck // a writer's error
	}
	for name, values := range trailer {
		for _, value := range values {
			if !validTrailer(name) || !httpguts.ValidHeaderFieldValue(value) {
				return ErrRequest
			}
			if _, err := c.out.WriteString(name + ": " + value + "\r\n"); err != nil {
				return err //nolint:wrapcheck // a writer's error
			}
		}
	}
	if _, err := c.out.WriteString("\r\n"); err != nil {
		return err //nolint:wrapcheck // a writer's error
	}
	return c.out.Flush() //nolint:wrapcheck // a writer's error
}
