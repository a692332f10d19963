// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"errors"
	"io"
	"net/http"
)

// body is the body of an answer, and what is still to be done for its exchange. Like any body it is
// not for concurrent use.
type body struct {
	io.ReadCloser // as http.ReadResponse made it
	conn          *conn
	// answer has the trailer once the body has ended.
	answer  *http.Response
	sending *sending // nil without a request body
	// disarm ends the context's hold on the connection; false when it was too late.
	disarm func() bool
	// reusable is set when the answer leaves the connection usable.
	reusable bool
	switched bool
	ended    bool
}

// begin takes up the answer's body. plain is plainlyFramed's word.
func (b *body) begin(req *http.Request, res *http.Response, plain bool) {
	b.ReadCloser, b.answer = res.Body, res
	b.switched = res.StatusCode == http.StatusSwitchingProtocols
	doubtful := len(res.TransferEncoding) > 0 && !plain
	b.reusable = !b.switched && !doubtful && !req.Close && !res.Close && res.ProtoMinor == 1
	if res.Body == http.NoBody && !b.switched {
		b.end(true)
	}
	res.Body = b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.ended:
		return 0, io.EOF
	case b.switched:
		return b.conn.readSwitched(p)
	}
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	if b.trailerOverrun(err) {
		err = ErrTrailerTooLarge
	}
	b.end(errors.Is(err, io.EOF))
	return n, err //nolint:wrapcheck // a reader's error
}

// trailerOverrun reports whether a body ended with err because of the size of its trailer. net/http reads
// no trailer that does not fit into its reader's buffer. It has no name for that error, after which the
// buffer is full; every other error has taken something from it.
func (b *body) trailerOverrun(err error) bool {
	if !errors.Is(err, io.EOF) {
		return b.conn.in != nil && b.conn.in.Size() == b.conn.in.Buffered()
	}
	fields := 0
	for _, values := range b.answer.Trailer {
		fields += len(values)
	}
	return fields > MaxTrailerFields
}

// Ready tells whether Read gives something, or an error, without waiting for the peer. It may for a
// body whose length the header states only: of another the bytes that are there may be those of
// its framing.
func (b *body) Ready() bool {
	c := b.conn
	if b.ended || c.in == nil {
		return false
	}
	return c.in.Buffered() > 0 || !c.encrypted && !c.quiet()
}

// end decides what becomes of the connection: it is kept only after an exchange that is whole.
// Bytes beyond the answer would be the answer to a request that nobody has sent yet.
func (b *body) end(whole bool) {
	if b.ended {
		return
	}
	b.ended = true
	c := b.conn
	keep := b.disarm() && whole && b.reusable && b.sending.complete() && c.in != nil && c.in.Buffered() == 0
	c.release()
	if keep {
		c.transport.pool.put(c.transport, c)
	} else {
		_ = c.Close()
	}
}

// Close implements io.Closer. It returns when nothing reads the request's body any more.
func (b *body) Close() error {
	b.end(false)
	b.sending.wait()
	return nil
}
