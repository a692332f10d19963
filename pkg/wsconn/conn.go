// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wsconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// writeBuffer holds one message of the usual size, 32 KiB and its channel, so that it is one frame.
	writeBuffer = 33 << 10
	// closeWait bounds the closing handshake: sending the close frame, and waiting for the peer's.
	closeWait = 5 * time.Second
	// maxReason is the room that a close frame has for a text.
	maxReason = 123
)

// buffers holds the buffers of connections that write: a silent connection has none.
var buffers websocket.BufferPool = &sync.Pool{}

// Conn is a WebSocket connection. Its methods may be called concurrently.
type Conn struct {
	ws *websocket.Conn
	// reading and writing hold the turns of the one reader and the one writer that gorilla/websocket allows.
	reading, writing chan struct{}
	pongs            chan struct{}
}

func newConn(ws *websocket.Conn, maxMessage int64) *Conn {
	c := &Conn{ws: ws, reading: make(chan struct{}, 1), writing: make(chan struct{}, 1), pongs: make(chan struct{}, 1)}
	// Security: without a limit one message of a peer fills the memory.
	ws.SetReadLimit(maxMessage)
	ws.SetPongHandler(func(string) error {
		select {
		case c.pongs <- struct{}{}:
		default:
		}
		return nil
	})
	return c
}

// Subprotocol returns the subprotocol that both sides chose; it is empty if there is none.
func (c *Conn) Subprotocol() string { return c.ws.Subprotocol() }

// Read returns the next message. It also answers pings and takes pongs, so a connection that is pinged needs a
// reader. When ctx ends, Read closes the connection.
func (c *Conn) Read(ctx context.Context) ([]byte, error) {
	release, err := c.turn(ctx, c.reading)
	if err != nil {
		return nil, err
	}
	_, r, err := c.ws.NextReader()
	var p []byte
	if err == nil {
		p, err = io.ReadAll(r) //nolint:forbidigo // SetReadLimit bounds a message
	}
	return p, release(err)
}

// Write sends one binary message that consists of parts. When ctx ends, Write closes the connection, for half of
// a message is sent.
func (c *Conn) Write(ctx context.Context, parts ...[]byte) error {
	release, err := c.turn(ctx, c.writing)
	if err != nil {
		return err
	}
	return release(c.write(parts))
}

func (c *Conn) write(parts [][]byte) error {
	w, err := c.ws.NextWriter(websocket.BinaryMessage)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return w.Close()
}

// turn waits for a turn. The function that it returns gives the turn back and returns the error to report: that
// of the context if it ended, since the context's end is what closed the connection.
func (c *Conn) turn(ctx context.Context, turns chan struct{}) (release func(error) error, err error) {
	select {
	case turns <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { _ = c.CloseNow() })
	return func(err error) error {
		stop()
		<-turns
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}, nil
}

// Ping returns nil once the peer has answered a ping. ctx needs a deadline, and one goroutine at a time pings.
func (c *Conn) Ping(ctx context.Context) error {
	select {
	case <-c.pongs: // the answer to an earlier ping that nobody waited for
	default:
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return errors.New("a ping needs a deadline")
	}
	if err := c.ws.WriteControl(websocket.PingMessage, nil, deadline); err != nil {
		return err
	}
	select {
	case <-c.pongs:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close sends a close frame and waits for the peer's, which says that the peer has read what was sent before. It
// fails if the peer closed with another code.
func (c *Conn) Close(code int, reason string) error {
	defer c.CloseNow() //nolint:errcheck // closed in order before, or lost
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	deadline, _ := ctx.Deadline()
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	frame := websocket.FormatCloseMessage(code, strings.ToValidUTF8(reason, ""))
	if err := c.ws.WriteControl(websocket.CloseMessage, frame, deadline); err != nil && !errors.Is(err, websocket.ErrCloseSent) {
		return fmt.Errorf("closing: %w", err)
	}
	for {
		switch _, err := c.Read(ctx); {
		case err == nil: // a message that crossed the close frame
		case CloseCode(err) == code:
			return nil
		default:
			return fmt.Errorf("closing: %w", err)
		}
	}
}

// CloseNow closes the connection without a close frame, and ends all reads and writes.
func (c *Conn) CloseNow() error { return c.ws.Close() }

// Release returns the connection of gorilla/websocket, without a limit for messages, for a stream that runs in
// it and never holds a whole message. Of the Conn only CloseNow may be used afterwards.
func (c *Conn) Release() *websocket.Conn {
	c.ws.SetReadLimit(0)
	return c.ws
}

// CloseCode returns the code of the peer's close frame, and -1 if err is another error.
func CloseCode(err error) int {
	var closed *websocket.CloseError
	// gorilla/websocket reports a connection that is lost as a close frame that nobody sent.
	if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
		return closed.Code
	}
	return -1
}
