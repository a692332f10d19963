// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"fmt"
	"net"
	"sync"
	"time"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
)

const (
	// MaxHeld bounds what is kept of what a caller sends before the command has said anything, in bytes, in case
	// that the container has no env and the command has to be run again without. A caller that sends more is told
	// so by the container runtime, once: the next command is run without at once.
	MaxHeld = 256 << 10
	// maxFirst bounds the messages that are looked at before the command's first output, in bytes; a longer one is
	// output.
	maxFirst = 8 << 10
	// replayTimeout bounds how long the replay of what is held takes.
	replayTimeout = 10 * time.Second
)

// Unmarked runs the caller's command without the mark, over another connection. early is what was read from that
// already.
type Unmarked func() (conn net.Conn, early []byte, err error)

// Knowledge is what is known of a container.
type Knowledge int

// A container has env or lacks it; the zero value means that this is not known.
const (
	Unknown Knowledge = iota
	HasEnv
	LacksEnv
)

// Conn is a connection to the API server over which a marked command runs, seen from the caller's side. It has one
// reader and one writer, as the relay is.
type Conn struct {
	command  Command
	unmarked Unmarked

	// writing is held by who writes to inner. It is taken before mu.
	writing sync.Mutex
	mu      sync.Mutex
	inner   net.Conn
	// sent is what the caller has sent, while that is held.
	sent []byte
	// holds is set while the command can be run without the mark: nothing of it was heard, and all that was sent
	// is there.
	holds         bool
	ended, closed bool
	deadline      time.Time

	// The rest is the reader's. raw is what it has read and not understood yet, and out what the caller gets next.
	raw, out []byte
	// said is what may be env's complaint, as far as it has come: env writes it in several pieces.
	said []byte
	// begun is set once the command has said something, or its end was said. complained is set if that was env's
	// complaint.
	begun, complained bool
	// over is set if there is no command: it was not started.
	over  bool
	end   ending
	known Knowledge
}

// Watch returns the connection of a command that was asked for as [Command.Marked] returns it; early is what was
// read from it already. The command can be run without the mark unless the container is known to have env.
func Watch(conn net.Conn, early []byte, c Command, known Knowledge, unmarked Unmarked) *Conn {
	return &Conn{command: c, unmarked: unmarked, inner: conn, raw: early, known: known, holds: known != HasEnv}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	for !c.begun && len(c.out) == 0 {
		if err := c.begin(); err != nil {
			return 0, err
		}
	}
	if len(c.out) > 0 {
		n := copy(p, c.out)
		c.end.add(p[:n])
		if c.out = c.out[n:]; len(c.out) == 0 {
			c.out = nil
		}
		return n, nil
	}
	n, err := c.present().Read(p)
	c.end.add(p[:n])
	return n, err //nolint:wrapcheck // a connection's own
}

// begin takes one step towards the first word of the command: it understands a message that was read, or reads
// more.
func (c *Conn) begin() error {
	f, rest, ok := nextFrame(c.raw)
	if !ok {
		if len(c.raw) > maxFirst {
			c.start(c.raw)
			return nil
		}
		var buf [1 << 10]byte
		n, err := c.present().Read(buf[:])
		if c.raw = append(c.raw, buf[:n]...); n > 0 {
			return nil
		}
		return err //nolint:wrapcheck // a connection's own
	}
	whole := c.raw[:len(c.raw)-len(rest)]
	switch {
	case f.isControl() && f.op != opClose, f.op == opBinary && len(f.data) <= 1:
		// The API server announces with an empty message that it is there.
		c.out, c.raw = append(c.out, whole...), rest
	case f.op == opBinary && f.data[0] == execwire.ChannelStatus:
		return c.hearStatus(f, rest)
	case f.op == opBinary && !c.complained && c.command.mayComplain(f, c.said):
		c.said = append(c.said, f.data[1:]...)
		c.complained = c.said[len(c.said)-1] == '\n'
		c.out, c.raw = append(c.out, whole...), rest
	default:
		if f.op == opBinary {
			c.known = HasEnv
		}
		c.start(c.raw)
	}
	return nil
}

// hearStatus understands a status that comes before the command has said anything.
func (c *Conn) hearStatus(f frame, rest []byte) error {
	status, ok := readStatus(f.data[1:])
	_, exited := status.ExitCode()
	switch {
	case ok && exited && c.complained:
		c.known = HasEnv
		if text, ok := c.command.asRuntime(&status); ok {
			c.over = true
			c.start(append(messageOf(opBinary, append([]byte{execwire.ChannelStatus}, text...)...), rest...))
			return nil
		}
	case ok && exited:
		c.known = HasEnv
	case ok && missing[program].MatchString(status.Message):
		c.known, c.over = LacksEnv, true
		if c.canRunAgain() {
			return c.runUnmarked()
		}
	}
	c.start(c.raw)
	return nil
}

// start has the caller read these bytes, and then the connection.
func (c *Conn) start(first []byte) {
	c.release()
	c.out, c.raw, c.begun = append(c.out, first...), nil, true
}

// canRunAgain reports whether the command can be run without the mark.
func (c *Conn) canRunAgain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holds && !c.ended && !c.closed
}

// release ends the keeping of what was sent. holds is false if that is not all.
func (c *Conn) release() (sent []byte, holds bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent, holds = c.sent, c.holds
	c.sent, c.holds = nil, false
	return sent, holds
}

// runUnmarked runs the command without the mark, since its container has no env, and sends again what was held.
func (c *Conn) runUnmarked() error {
	_ = c.present().Close()  // which ends a write,
	c.writing.Lock()         // so that this does not wait,
	defer c.writing.Unlock() // and nothing is written before what is held.
	sent, holds := c.release()
	if !holds { // something large was sent in the last moment
		c.start(c.raw)
		return nil
	}
	conn, early, err := c.unmarked()
	if err != nil {
		return fmt.Errorf("running the command in a container without env: %w", err)
	}
	if err := c.replace(conn); err != nil {
		return err
	}
	if len(sent) > 0 { // an error is one of the connection, which its reader meets as well
		_ = conn.SetWriteDeadline(time.Now().Add(replayTimeout))
		_, _ = conn.Write(sent)
		_ = conn.SetWriteDeadline(time.Time{})
	}
	c.start(early)
	return nil
}

// replace has another connection take the place of the first.
func (c *Conn) replace(conn net.Conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inner = conn
	if c.closed || c.ended { // the caller has gone meanwhile
		_ = conn.Close()
		return net.ErrClosed
	}
	return conn.SetReadDeadline(c.deadline) //nolint:wrapcheck // a connection's own
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	inner, held, err := c.keep(p)
	if err != nil {
		return 0, err
	}
	if n, err := inner.Write(p); err != nil && !held {
		return n, err //nolint:wrapcheck // a connection's own
	}
	// What is held goes over another connection if this one has ended because there is no env. Else the reader
	// meets its end.
	return len(p), nil
}

// keep returns where to write, and whether what is written is held.
func (c *Conn) keep(p []byte) (inner net.Conn, held bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, false, net.ErrClosed
	case c.holds && len(c.sent)+len(p) <= MaxHeld:
		c.sent = append(c.sent, p...)
	default:
		c.sent, c.holds = nil, false
	}
	return c.inner, c.holds, nil
}

// CloseWrite tells the API server that nothing more comes.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	half, ok := c.inner.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	return half.CloseWrite() //nolint:wrapcheck // a connection's own
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.inner.Close() //nolint:wrapcheck // a connection's own
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.inner.SetReadDeadline(t) //nolint:wrapcheck // a connection's own
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.present().SetWriteDeadline(t) //nolint:wrapcheck // a connection's own
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.present().LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.present().RemoteAddr() }

func (c *Conn) present() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inner
}

// Left reports whether processes of the command may be left: it was not said how it ended, and it was started with
// the mark. has begun is false if nothing was heard of it, so that it may begin later. No relay may use the
// connection any more.
func (c *Conn) Left() (left, begun bool) {
	if c.over {
		return false, true
	}
	c.end.add(c.out) // which may say already that it has ended,
	c.end.add(c.raw) // and so may this
	status, ok := readStatus(c.end.status)
	_, exited := status.ExitCode()
	return !c.end.whole || !ok || !exited, c.begun
}

// Known is what the command's begin has told of its container. No relay may use the connection any more.
func (c *Conn) Known() Knowledge { return c.known }
