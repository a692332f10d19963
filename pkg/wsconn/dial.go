// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wsconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// maxAnswer bounds the body of an answer that is not a WebSocket, and answerWait its reading.
	maxAnswer  = 64 << 10
	answerWait = 3 * time.Second
)

// Dial opens a WebSocket at an http or https URL through client, and returns a connection whose messages from
// the peer have at most maxMessage bytes. If the server answers with something else, Dial returns the answer and
// an error; at most 64 KiB of its body are read, and it need not be closed.
func Dial(ctx context.Context, client *http.Client, to *url.URL, header http.Header, maxMessage int64, subprotocols ...string) (*Conn, *http.Response, error) {
	h := &handshake{ctx: ctx, client: client, to: to, header: header}
	dialer := websocket.Dialer{
		WriteBufferSize: writeBuffer, WriteBufferPool: buffers, Subprotocols: subprotocols,
		NetDialContext: func(context.Context, string, string) (net.Conn, error) { return h, nil },
	}
	// The handshake goes to h.to; the dialer wants an address of its own scheme.
	ws, _, err := dialer.DialContext(ctx, (&url.URL{Scheme: "ws", Host: to.Host}).String(), nil)
	if err != nil {
		return nil, h.res, fmt.Errorf("opening a WebSocket: %w", err)
	}
	if chosen := ws.Subprotocol(); chosen != "" && !slices.Contains(subprotocols, chosen) {
		_ = ws.Close()
		return nil, h.res, fmt.Errorf("opening a WebSocket: the server chose the subprotocol %.100q, which was not offered", chosen)
	}
	return newConn(ws, maxMessage), h.res, nil
}

// handshake is the connection that gorilla/websocket's dialer gets. It sends the dialer's request through an
// http.Client, and after the switch it is the connection that the client's transport made.
//
// Security: gorilla/websocket's dialer makes its own TLS connections. A second set of roots, proxies and
// credentials beside the client's would be one that can be forgotten, and a token would go to a server that
// nobody verified.
type handshake struct {
	ctx    context.Context //nolint:containedctx // net.Conn has none
	client *http.Client
	to     *url.URL
	header http.Header

	request  bytes.Buffer
	res      *http.Response
	in       io.Reader          // nil before the answer
	body     io.ReadWriteCloser // nil before the switch
	deadline time.Time          // of writes
}

// send sends the request, and prepares the answer for reading.
func (h *handshake) send() error {
	written, err := http.ReadRequest(bufio.NewReader(&h.request))
	if err != nil {
		return fmt.Errorf("reading the handshake: %w", err)
	}
	req, err := http.NewRequestWithContext(h.ctx, http.MethodGet, h.to.String(), nil)
	if err != nil {
		return err
	}
	req.Header = written.Header
	req.Header.Del("User-Agent") // net/http's own; the client's transport may have one to set
	maps.Copy(req.Header, h.header)
	if h.res, err = h.client.Do(req); err != nil { //nolint:bodyclose // the connection closes it, or the caller of Dial
		return err
	}
	if h.res.StatusCode != http.StatusSwitchingProtocols {
		keepBody(h.res)
		return fmt.Errorf("the server answered %s", h.res.Status)
	}
	body, ok := h.res.Body.(io.ReadWriteCloser)
	if !ok {
		_ = h.res.Body.Close()
		return errors.New("the HTTP client does not hand its connection on")
	}
	h.body, h.res.Body = body, http.NoBody
	if h.res.Header.Get("Sec-Websocket-Extensions") != "" {
		// Security: gorilla/websocket inflates what a server compresses unasked, and its limit for a message
		// counts the bytes before that: 1 MiB could become 1 GiB.
		return errors.New("the server chose an extension, and none was offered")
	}
	head := bytes.NewBufferString("HTTP/1.1 101 Switching Protocols\r\n")
	if err := h.res.Header.Write(head); err != nil {
		return err
	}
	head.WriteString("\r\n")
	h.in = io.MultiReader(head, body)
	return nil
}

// keepBody replaces an answer's body by as much of it as can be had.
func keepBody(res *http.Response) {
	defer res.Body.Close()
	defer time.AfterFunc(answerWait, func() { _ = res.Body.Close() }).Stop()
	p, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) //nolint:forbidigo // maxAnswer
	res.Body = io.NopCloser(bytes.NewReader(p))
}

// Read implements net.Conn.
func (h *handshake) Read(p []byte) (int, error) {
	if h.in == nil {
		if err := h.send(); err != nil {
			return 0, err
		}
	}
	return h.in.Read(p)
}

// Write implements net.Conn.
func (h *handshake) Write(p []byte) (int, error) {
	if h.body == nil {
		return h.request.Write(p)
	}
	if !h.deadline.IsZero() {
		defer time.AfterFunc(time.Until(h.deadline), func() { _ = h.body.Close() }).Stop()
	}
	return h.body.Write(p)
}

// Close implements net.Conn.
func (h *handshake) Close() error {
	if h.body == nil {
		return nil
	}
	return h.body.Close()
}

// SetDeadline implements net.Conn.
func (h *handshake) SetDeadline(t time.Time) error { return h.SetWriteDeadline(t) }

// SetReadDeadline implements net.Conn. Contexts bound the reads.
func (h *handshake) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn. The connection of an HTTP client has no deadlines, so a write that is not
// done by then closes it: gorilla/websocket does not use a connection after that either. gorilla/websocket sets
// the deadline before each write, in the turn of the one that writes.
func (h *handshake) SetWriteDeadline(t time.Time) error {
	h.deadline = t
	return nil
}

// LocalAddr implements net.Conn.
func (h *handshake) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (h *handshake) RemoteAddr() net.Addr { return &net.TCPAddr{} }
