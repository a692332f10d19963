// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

// readBuffer is for headers; the rest of a long body is read past it.
const readBuffer = 4 << 10

// tlsAlert begins the record of a TLS alert. No answer of HTTP begins so.
const tlsAlert = 0x15

var newline = []byte("\n")

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }}

// conn is a connection to a peer behind one host.
type conn struct {
	net.Conn
	transport *Transport
	host      string
	peer      Peer
	// raw looks at the connection without reading from it; nil for what is no TCP, as in tests.
	raw syscall.RawConn
	// encrypted is set when what raw sees is not yet what Read gives.
	encrypted bool
	// look is what raw looks with, made once, and found what it found.
	look  func(fd uintptr) bool
	found bool
	// made is when it was dialled, if its transport has a MaxAge, and since when it became idle.
	made, since time.Time

	// These are set during an exchange only.
	in *bufio.Reader
	// headerLeft and linesLeft are how much more may be read before the header has ended.
	headerLeft int64
	linesLeft  int
	inHeader   bool
	// overrun is set when more was wanted.
	overrun bool
}

func newConn(t *Transport, nc net.Conn, host string, peer Peer) *conn {
	c := &conn{Conn: nc, transport: t, host: host, peer: peer}
	if t.MaxAge > 0 {
		c.made = time.Now()
	}
	under := nc
	if wrapped, ok := nc.(interface{ NetConn() net.Conn }); ok { // a tls.Conn
		under, c.encrypted = wrapped.NetConn(), true
	}
	if s, ok := under.(syscall.Conn); ok {
		c.raw, _ = s.SyscallConn()
		c.look = c.poll
	}
	return c
}

// quiet tells whether the peer has neither closed an idle connection nor sent anything on it. An
// answer that comes before its request would be taken for that of the next one.
func (c *conn) quiet() bool {
	if c.raw == nil {
		return true
	}
	c.found = true
	return c.raw.Read(c.look) == nil && !c.found
}

// poll asks without waiting. What can be read is a byte or an end.
func (c *conn) poll(fd uintptr) bool {
	c.found = !rawconn.Quiet(fd)
	return true
}

// Read reads for c.in. While a header is read it counts.
func (c *conn) Read(p []byte) (int, error) {
	if !c.inHeader {
		return c.Conn.Read(p) //nolint:wrapcheck // a reader's error
	}
	if c.headerLeft <= 0 || c.linesLeft <= 0 {
		c.overrun = true
		return 0, ErrHeaderTooLarge
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.headerLeft)])
	c.headerLeft -= int64(n)
	// What lies behind the header's end is counted too and does no harm: no more is read for it.
	c.linesLeft -= bytes.Count(p[:n], newline)
	return n, err //nolint:wrapcheck // a reader's error
}

// exchange sends a request and reads the header of its answer. It takes care of the connection:
// whoever gets an error has nothing to close.
func (c *conn) exchange(req *http.Request) (*http.Response, error) {
	c.in, _ = readers.Get().(*bufio.Reader)
	c.in.Reset(c)
	b := &body{conn: c}
	b.disarm = context.AfterFunc(req.Context(), func() { _ = c.Close() })
	res, err := c.ask(req, b)
	if err == nil {
		return res, nil
	}
	failed := b.sending.failure() // before wait, which makes reading fail
	b.end(false)
	b.sending.wait()
	switch {
	case failed != nil:
		// That the request could not be read is why the answer did not come. This is looked at
		// first: a Stopper may end the context.
		err = fmt.Errorf("reading the request's body: %w", failed)
	case req.Context().Err() != nil:
		err = context.Cause(req.Context())
	}
	return nil, err
}

func (c *conn) ask(req *http.Request, b *body) (*http.Response, error) {
	if err := b.send(req); err != nil {
		return nil, err
	}
	return c.receive(req, b)
}

// receive reads the header of the answer; informational ones before it end here.
func (c *conn) receive(req *http.Request, b *body) (*http.Response, error) {
	c.headerLeft, c.linesLeft = c.transport.maxHeaderBytes(), MaxHeaderLines
	c.inHeader, c.overrun = true, false
	for informational := 0; ; informational++ {
		if informational > maxInformational {
			return nil, ErrInformational
		}
		first, err := c.in.Peek(1)
		if err != nil {
			return nil, unanswered(err, informational)
		}
		if first[0] == tlsAlert {
			return nil, ErrTLS
		}
		plain := plainlyFramed(c.in)
		res, err := http.ReadResponse(c.in, req)
		if c.overrun { // an error of another name, if a line was cut
			return nil, ErrHeaderTooLarge
		}
		if err != nil {
			return nil, malformed(err)
		}
		switch {
		case res.ProtoMajor != 1 || res.StatusCode < 100 || !validNames(res.Header):
			return nil, ErrMalformed
		case res.StatusCode == http.StatusContinue:
			b.sending.goOn()
			continue
		case res.StatusCode < 200 && res.StatusCode != http.StatusSwitchingProtocols:
			if c.transport.Informational != nil {
				c.transport.Informational(req, res.StatusCode, res.Header)
			}
			continue
		}
		c.inHeader = false
		b.begin(req, res, plain)
		return res, nil
	}
}

// validNames refuses what http.ReadResponse lets pass: names with a space before the colon, behind
// which a header could hide from the caller's filter.
func validNames(h http.Header) bool {
	for name := range h {
		if !httpguts.ValidHeaderFieldName(name) {
			return false
		}
	}
	return true
}

// unanswered tells an end without any answer, after which a request may be sent again, from what
// else can fail.
func unanswered(err error, informational int) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrHeaderTooLarge) || informational > 0 {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return ErrClosed
}

// malformed keeps the text of what was received out of errors, and so out of logs.
func malformed(err error) error {
	var netErr net.Error
	if errors.As(err, &netErr) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return ErrMalformed
}

// plainlyFramed tells whether the header that c.in begins with states the length of its body in
// one way only. http.ReadResponse lets Transfer-Encoding win over Content-Length and then hides
// that there were both: the body is right, but the peer, or what is behind it, may see its end
// elsewhere, so that what follows is not to be trusted. A header that is not all here yet counts
// as doubtful if it is chunked; see body.begin.
func plainlyFramed(in *bufio.Reader) bool {
	head, _ := in.Peek(in.Buffered())
	head, _, whole := bytes.Cut(head, []byte("\r\n\r\n"))
	if !whole {
		return false
	}
	for line := range bytes.Lines(head) {
		if len(line) > 15 && (line[0] == 'C' || line[0] == 'c') && bytes.EqualFold(line[:14], []byte("Content-Length")) {
			return false
		}
	}
	return true
}

// release gives the buffer back. What is in it is lost.
func (c *conn) release() {
	if c.in == nil {
		return
	}
	c.in.Reset(nil)
	readers.Put(c.in)
	c.in = nil
}

// readSwitched reads after 101: first what is in the buffer, then from the connection itself.
func (c *conn) readSwitched(p []byte) (int, error) {
	if c.in != nil && c.in.Buffered() > 0 {
		return c.in.Read(p) //nolint:wrapcheck // a reader's error
	}
	c.release()           // a switched connection lasts, and needs no buffer of ours
	return c.Conn.Read(p) //nolint:wrapcheck // a reader's error
}
