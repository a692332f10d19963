// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
)

const (
	// MaxHeld bounds what a caller sends before the command has begun, in bytes: it is kept in case that the
	// command has to be run again as it is. More waits.
	MaxHeld = 64 << 10
	// replayTimeout bounds how long that then takes.
	replayTimeout = 10 * time.Second
)

// errNoWord means that a shell printed something else, for too long.
var errNoWord = errors.New("the shell of the container does not say which process it is")

// Asked runs the caller's own command, as it is, over another connection. For never, no command of this
// container is to be run by the script again. early is what was read from the connection already.
type Asked func(never bool) (conn net.Conn, early []byte, err error)

// Conn is a connection to the API server over which a command begins, seen from the caller's side. Reading
// leaves out what the script says. A Conn has one reader and one writer, as the relay is.
type Conn struct {
	command Command
	asIs    Asked

	mu    sync.Mutex
	moved sync.Cond // that one of these has changed
	inner net.Conn
	// writing is held by who writes to inner. It is taken before mu.
	writing sync.Mutex
	// begun is set once the command runs, or will not, and replaced if that is over another connection.
	begun, replaced bool
	// sent is what the caller sent before, of which sentOn bytes went on; ended is set if that was all, and
	// typed if input was among what went on.
	sent                 []byte
	sentOn               int
	ended, typed, closed bool
	deadline             time.Time

	// The rest is the reader's. raw is what it has read and not understood yet, said the part of the
	// script's word that is there, and out what the caller gets next.
	raw, said, out []byte
	end            ending
	left           Process
	known          bool
}

// Watch returns the connection of a command that was asked for as Started returns it; early is what was read
// from it already.
func Watch(conn net.Conn, early []byte, c Command, asIs Asked) *Conn {
	w := &Conn{command: c, asIs: asIs, inner: conn, raw: early}
	w.moved.L = &w.mu
	return w
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	for !c.hasBegun() {
		if c.isClosed() {
			return 0, net.ErrClosed
		}
		if err := c.begin(c.asIs); err != nil {
			return 0, err
		}
	}
	if len(c.out) > 0 {
		n := copy(p, c.out)
		if c.out = c.out[n:]; len(c.out) == 0 {
			c.out = nil
		}
		c.end.add(p[:n])
		return n, nil
	}
	n, err := c.present().Read(p)
	c.end.add(p[:n])
	return n, err //nolint:wrapcheck // a connection's own
}

// begin takes one step towards the begin of the command: it understands what was read, or reads more.
func (c *Conn) begin(asIs Asked) error {
	f, rest, ok := nextFrame(c.raw)
	if !ok {
		if len(c.raw)+len(c.said)+len(c.out) > 2*MaxSaid {
			return errNoWord
		}
		var buf [1 << 10]byte
		n, err := c.present().Read(buf[:])
		if c.raw = append(c.raw, buf[:n]...); n > 0 {
			return nil
		}
		return err //nolint:wrapcheck // a connection's own
	}
	c.raw = rest
	switch {
	case f.op == opClose || !f.isControl() && len(f.data) > 0 && (f.op == opContinuation || !f.final):
		// No API server takes a message apart. What is not understood is left as it is.
		c.out = append(appendMessage(c.out, f.op, f.data...), c.raw...)
		c.start(nil)
	case f.isControl() || len(f.data) <= 1: // the API server announces with an empty one that it is there
		c.out = appendMessage(c.out, f.op, f.data...)
	case f.data[0] == execwire.ChannelStatus: // there is no shell, or the container does not run
		return c.startAsIs(asIs, hasNoShell(f.data))
	case f.data[0] != c.command.channel():
		c.out = appendMessage(c.out, f.op, f.data...)
	default:
		c.said = append(c.said, f.data[1:]...)
		return c.hear(asIs)
	}
	return nil
}

// hear looks for the script's word in what was said.
func (c *Conn) hear(asIs Asked) error {
	before, word, rest, found := c.command.readWord(c.said)
	if !found {
		if len(c.said) > MaxSaid {
			return errNoWord
		}
		return nil
	}
	if c.left, c.known = c.command.readProcess(word); !c.known {
		return c.startAsIs(asIs, word != saysOther)
	}
	if c.hasTyped() { // before is the terminal's echo
		rest = append(before[:len(before):len(before)], rest...)
	}
	if len(rest) > 0 {
		c.out = appendMessage(c.out, opBinary, append([]byte{c.command.channel()}, rest...)...)
	}
	c.out = append(c.out, c.raw...)
	c.start(nil)
	return nil
}

// startAsIs has the command run as it is, over another connection.
func (c *Conn) startAsIs(asIs Asked, never bool) error {
	conn, early, err := asIs(never)
	if err != nil {
		return fmt.Errorf("running the command as it is: %w", err)
	}
	c.out = early
	c.start(conn)
	return nil
}

// start lets the caller's bytes through: to another connection if there is one, and then all of them again.
func (c *Conn) start(other net.Conn) {
	c.raw, c.said = nil, nil
	if other != nil {
		_ = c.present().Close() // which ends a write
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	if other != nil {
		c.inner, c.sentOn, c.replaced = other, 0, true
		_ = other.SetReadDeadline(c.deadline)
	}
	inner, missing := c.inner, c.sent[c.sentOn:]
	c.mu.Unlock()
	if len(missing) > 0 { // an error is one of the connection, which its reader meets as well
		_ = inner.SetWriteDeadline(time.Now().Add(replayTimeout))
		_, _ = inner.Write(missing)
		_ = inner.SetWriteDeadline(time.Time{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		_ = inner.Close()
	case c.ended:
		_ = closeWrite(inner)
	}
	c.sent, c.begun = nil, true
	c.moved.Broadcast()
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.waitForRoom(len(p))
	inner, on, isAll, err := c.take(p)
	if err != nil {
		return 0, err
	}
	_, err = inner.Write(on)
	c.writing.Unlock()
	if err != nil && (isAll || !c.isReplaced()) {
		return 0, err //nolint:wrapcheck // a connection's own
	}
	return len(p), nil
}

// take keeps what a caller sends before the command has begun, and returns what goes on of it, and where. It
// leaves the connection locked against other writers.
func (c *Conn) take(p []byte) (inner net.Conn, on []byte, isAll bool, err error) {
	c.writing.Lock()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		c.writing.Unlock()
		return nil, nil, false, net.ErrClosed
	case c.begun:
		return c.inner, p, true, nil
	}
	c.sent = append(c.sent, p...)
	on = c.sent[c.sentOn:]
	n, typed := wholeMessages(on)
	on, c.sentOn, c.typed = on[:n], c.sentOn+n, c.typed || typed
	return c.inner, on, false, nil
}

// waitForRoom waits until so much may be kept, the command has begun, or the connection is closed.
func (c *Conn) waitForRoom(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.begun && !c.closed && len(c.sent) > 0 && len(c.sent)+n > MaxHeld {
		c.moved.Wait()
	}
}

// isReplaced waits until the command has begun, and reports whether another connection has taken the place of
// that to which something could not be written. It got that, too.
func (c *Conn) isReplaced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.begun && !c.closed {
		c.moved.Wait()
	}
	return c.replaced
}

// wholeMessages is how much of what a caller sent may go on before the command has begun, and whether there
// is input in it: the terminal's size must be there early. Not so a close, with which the API server would let
// go of the command.
func wholeMessages(b []byte) (n int, input bool) {
	for {
		h, ok := readHeader(b[n:])
		if !ok || h.op == opClose || h.payload > uint64(len(b)-n-h.size) {
			return n, input
		}
		channel := byte(0)
		if h.masked { // as a caller's frames are; the mask ends the header
			channel = b[n+h.size-4]
		}
		if h.payload > 1 {
			input = input || b[n+h.size]^channel == execwire.ChannelStdin
		}
		n += h.size + int(h.payload) //nolint:gosec // it is not longer than b
	}
}

// hasTyped reports whether a terminal got input before the command began, which it may have echoed.
func (c *Conn) hasTyped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.typed && c.command.TTY
}

// CloseWrite tells the API server that nothing more comes, once the command has begun.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended = true; c.begun {
		return closeWrite(c.inner)
	}
	return nil
}

func closeWrite(conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	return half.CloseWrite() //nolint:wrapcheck // a connection's own
}

// Close implements net.Conn. Before the command has begun it ends only reading: Left finds out then what has
// begun.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.moved.Broadcast()
	if c.begun {
		return c.inner.Close() //nolint:wrapcheck // a connection's own
	}
	return c.inner.SetDeadline(time.Unix(1, 0)) //nolint:wrapcheck // a connection's own
}

// Left returns the process that nobody has heard the end of; ok is false if there is none. It closes the
// connection, and waits before until the command has begun or ctx ends. No relay may use the connection any
// more.
func (c *Conn) Left(ctx context.Context) (p Process, ok bool) {
	_ = c.Close()
	if !c.hasBegun() {
		inner := c.present()
		_ = inner.SetDeadline(time.Time{})
		defer inner.Close()
		defer context.AfterFunc(ctx, func() { _ = inner.Close() })()
		for !c.hasBegun() {
			if err := c.begin(nobodyAsks); err != nil {
				return p, false
			}
		}
	}
	c.end.add(c.out) // which may say already that it has ended
	return c.left, c.known && !c.end.seen
}

// Named reports whether the script has named the command's process. No relay may use the connection any more.
func (c *Conn) Named() bool { return c.known }

// errGone means that the command need not be run any more.
var errGone = errors.New("the caller has gone")

func nobodyAsks(bool) (net.Conn, []byte, error) { return nil, nil, errGone }

func (c *Conn) hasBegun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *Conn) present() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inner
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.deadline = at
	return c.inner.SetReadDeadline(at) //nolint:wrapcheck // a connection's own
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(at time.Time) error { return c.present().SetWriteDeadline(at) } //nolint:wrapcheck // a connection's own

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.present().LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.present().RemoteAddr() }
