// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

// quick serves plain requests of HTTP/1.1 on the goroutine of their connection. net/http has a second goroutine watch the
// connection during each request, and to hand over to it and back is a third of what a proxy costs.
//
// A request is plain if it has no body, asks for nothing but an answer, and cannot be read in two ways: see isPlain. With
// any other the connection goes to net/http, with its bytes as they came, and stays there; so all that is refused, and all
// framing of bodies, is net/http's. Parsing is net/http's, too. While a connection waits it holds no buffer.
type quick struct {
	port   *port
	client *clientConn
	raw    syscall.RawConn
	// base is the context of the connection, whose value is the connection.
	base context.Context //nolint:containedctx // requests have theirs of it
	gone goneWatch

	// buf is lent while there is something in it; the first n bytes are.
	buf *[quickBuffer]byte
	n   int
	// attempt is read, made once so that a read allocates nothing; err is its result.
	attempt func(fd uintptr) bool
	err     error
	// deadline is when an idle connection ends.
	deadline time.Time
}

// quickBuffer is how long the head of a plain request is at most, with what follows it at once.
const quickBuffer = 8 << 10

var quickBuffers = sync.Pool{New: func() any { return new([quickBuffer]byte) }}

// deadlineSlack is how much earlier than IdleTimeout an idle connection may end: setting a deadline for each request costs
// more than that is worth.
const deadlineSlack = time.Minute

// serveQuick serves a connection until it ends or goes to net/http. It reports whether it could.
func (p *port) serveQuick(c *clientConn) bool {
	conn, ok := c.Conn.(*rawconn.Conn)
	if !ok || len(c.early) > quickBuffer {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	q := &quick{port: p, client: c, raw: raw, base: withConn(context.Background(), c)}
	q.attempt = q.read
	q.gone.quick, q.gone.done = q, make(chan struct{}, 1)
	c.gone.Store(&q.gone)
	q.buf, _ = quickBuffers.Get().(*[quickBuffer]byte)
	q.n = copy(q.buf[:], c.early)
	c.early = nil
	for q.one() {
	}
	q.giveBack()
	c.gone.Store(nil)
	return true
}

// one serves a request, and reports whether the connection has another.
func (q *quick) one() bool {
	if time.Until(q.deadline) < IdleTimeout-deadlineSlack {
		q.deadline = time.Now().Add(IdleTimeout)
		_ = q.client.Conn.SetReadDeadline(q.deadline)
	}
	length := q.head()
	if length < 0 {
		_ = q.client.Close()
		return false
	}
	r := parsePlain(q.buf[:length])
	if r == nil || q.port.servers.ending.Load() {
		q.client.early = bytes.Clone(q.buf[:q.n])
		q.port.servers.give(q.client, http1Spoken)
		return false
	}
	q.n = copy(q.buf[:], q.buf[length:q.n])
	if q.n == 0 {
		q.giveBack()
	}
	if !q.answer(r) {
		_ = q.client.Close()
		return false
	}
	return true
}

// head reads until a head is there, and returns its length: 0 if it is longer than the buffer, less than 0 if the connection has ended.
func (q *quick) head() int {
	for looked, slow := 0, false; ; {
		if q.n > 0 {
			if end := bytes.Index(q.buf[looked:q.n], headEnd); end >= 0 {
				if slow {
					_ = q.client.Conn.SetReadDeadline(q.deadline)
				}
				return looked + end + len(headEnd)
			}
			if q.n == len(q.buf) {
				return 0
			}
			if looked = max(0, q.n-len(headEnd)+1); !slow {
				slow = true
				_ = q.client.Conn.SetReadDeadline(time.Now().Add(q.port.proxy.opts.headerTimeout))
			}
		}
		before := q.n
		if err := q.raw.Read(q.attempt); err != nil || q.err != nil || q.n == before {
			return -1
		}
	}
}

var headEnd = []byte("\r\n\r\n")

// read is one attempt to read; false has the poller wait for more, meanwhile without a buffer if it is empty.
func (q *quick) read(fd uintptr) bool {
	if q.buf == nil {
		q.buf, _ = quickBuffers.Get().(*[quickBuffer]byte)
	}
	n, err := rawconn.Read(fd, q.buf[q.n:])
	if errors.Is(err, rawconn.ErrAgain) {
		if q.n == 0 {
			q.giveBack()
		}
		return false
	}
	q.err = err
	q.n += max(n, 0)
	return true
}

func (q *quick) giveBack() {
	if q.buf != nil {
		quickBuffers.Put(q.buf)
		q.buf, q.n = nil, 0
	}
}

// parser reads a request from bytes.
type parser struct {
	from bytes.Reader
	in   *bufio.Reader
}

var parsers = sync.Pool{New: func() any {
	p := &parser{}
	p.in = bufio.NewReaderSize(&p.from, quickBuffer)
	return p
}}

// parsePlain returns the request that a head is, or nil if it is not a plain one.
func parsePlain(head []byte) *http.Request {
	p, _ := parsers.Get().(*parser)
	defer parsers.Put(p)
	p.from.Reset(head)
	p.in.Reset(&p.from)
	r, err := http.ReadRequest(p.in)
	// The attack: a head that net/http takes to end earlier, by bare line feeds, has the rest of it read by nobody here, and
	// as a request by somebody else.
	if err != nil || p.in.Buffered() > 0 || p.from.Len() > 0 || !isPlain(r) {
		return nil
	}
	return r
}

// isPlain reports whether a request is one that net/http's server would serve, and that has nothing to it but its head.
func isPlain(r *http.Request) bool {
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.Method == http.MethodConnect || !strings.HasPrefix(r.RequestURI, "/") ||
		r.Host == "" || !httpguts.ValidHostHeader(r.Host) ||
		r.ContentLength != 0 || r.Body != http.NoBody || len(r.TransferEncoding) > 0 || len(r.Trailer) > 0 {
		return false
	}
	for name, values := range r.Header {
		switch name {
		case "Upgrade", "Expect", "Transfer-Encoding", "Http2-Settings", "Te":
			return false
		case "Connection":
			if len(values) != 1 || !strings.EqualFold(values[0], "keep-alive") {
				return false
			}
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return false
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return false
			}
		}
	}
	return true
}

// answer has the request answered, and reports whether the connection goes on.
func (q *quick) answer(r *http.Request) (goesOn bool) {
	ctx, cancel := context.WithCancel(q.base)
	w := newAnswer(q.client.Conn, r.Method == http.MethodHead)
	q.port.proxy.answering.add()
	q.gone.begin(cancel, time.Now())
	defer func() {
		defer q.port.proxy.answering.done()
		defect := recover()
		if q.gone.end() {
			q.deadline = time.Time{} // to be set again
		}
		cancel()
		if defect != nil {
			goesOn = false
			if defect != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				q.port.proxy.metrics.failed(false, "defect")
				q.port.proxy.log.Error("a request failed by a defect", "defect", defect, "stack", string(debug.Stack()))
			}
		}
		w.release()
	}()
	q.port.serve(ctx, q.client, w, r)
	return w.finish() == nil && !w.closes
}

// goneWatch looks whether a client has gone while its request takes long. A timer for each request would cost more than all
// else here: to set one wakes a thread. So one goroutine looks at all connections now and then (watchClients).
type goneWatch struct {
	quick  *quick
	state  atomic.Int32
	since  atomic.Int64 // Unix nanoseconds
	cancel context.CancelFunc
	done   chan struct{}
}

// States of a goneWatch.
const (
	notAnswering = iota
	answering
	watched
)

func (g *goneWatch) begin(cancel context.CancelFunc, at time.Time) {
	g.cancel = cancel
	g.since.Store(at.UnixNano())
	g.state.Store(answering)
}

// end ends the watch, and reports whether there was one, which leaves a deadline behind.
func (g *goneWatch) end() bool {
	if g.state.CompareAndSwap(answering, notAnswering) {
		return false
	}
	_ = g.quick.client.Conn.SetReadDeadline(past)
	<-g.done
	g.state.Store(notAnswering)
	return true
}

// goneAfter is how long a request takes before its client is watched.
const goneAfter = 50 * time.Millisecond

// look begins the watch of a request that takes long.
func (g *goneWatch) look(now time.Time) {
	if now.UnixNano()-g.since.Load() >= int64(goneAfter) && g.state.CompareAndSwap(answering, watched) {
		go g.wait()
	}
}

// wait waits until the client says something or ends its half. The next request, which some send before they have the answer
// to this one, ends the watch.
func (g *goneWatch) wait() {
	defer func() { g.done <- struct{}{} }()
	err := g.quick.raw.Read(func(fd uintptr) bool { return !rawconn.Quiet(fd) })
	if err != nil {
		return // the request has ended
	}
	var peeked [1]byte
	n, failed := 0, error(nil)
	err = g.quick.raw.Control(func(fd uintptr) {
		n, _, failed = syscall.Recvfrom(int(fd), peeked[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	if err != nil || failed != nil || n == 0 {
		g.cancel()
	}
}
