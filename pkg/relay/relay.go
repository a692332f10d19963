// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package relay copies bytes both ways between two connections that have left HTTP behind, or never spoke it: of the data
// plane after an upgrade, and of the proxies in front of Services.
package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"
)

const (
	// relayChunk is what one splice moves at most before bytes are counted.
	relayChunk = 1 << 20
	// bulkPause is how long a splice waits for more.
	bulkPause = 20 * time.Millisecond
	// DefaultHalfIdle is the idle limit once one side has ended: what the other still has to say
	// it says soon.
	DefaultHalfIdle = 30 * time.Second
)

var (
	// ErrIdle is the error of a relay over which nothing was sent for too long.
	ErrIdle = errors.New("nothing was sent either way for too long")
	// ErrDefect is that of a relay that failed by a defect of ours.
	ErrDefect = errors.New("the relay failed by itself")
)

// End is one side of a relay.
type End struct {
	Conn net.Conn
	// Early was read from the side before the relay began; it goes first.
	Early []byte
	// Count, if set, is how many bytes came from this side.
	Count *atomic.Int64
}

func (e *End) counted(n int64) {
	if e.Count != nil {
		e.Count.Add(n)
	}
}

// Relay copies bytes both ways between two connections. It knows nothing of what they mean, and
// so adds nothing of its own: a WebSocket close frame in the middle of another frame would be part
// of that one.
//
// Small messages go through a buffer that is lent for the moment; when they fill it and both sides
// are plain TCP, the kernel moves the bytes (splice), for which no wrapper may be put around
// either side. While nothing is sent a direction holds neither a buffer nor a pipe.
type Relay struct {
	// Context ends the relay.
	Context context.Context //nolint:containedctx // the relay's life
	// Idle is how long neither side may send anything.
	Idle time.Duration
	// HalfIdle is the same once one side has ended. It defaults to DefaultHalfIdle, and is never more than Idle.
	HalfIdle    time.Duration
	Client, Pod End

	lastSent  atomic.Int64 // Unix nanoseconds
	halfEnded atomic.Bool
}

// Run relays until both sides have ended, one has failed, or Context ends. It closes both
// connections; when it returns no goroutine is left.
func (r *Relay) Run() error {
	defer r.close()
	defer context.AfterFunc(r.Context, r.close)()
	r.lastSent.Store(time.Now().UnixNano())
	up, upEnded, downEnded := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() { up <- r.one(&r.Client, &r.Pod, upEnded, downEnded) }()
	down := r.one(&r.Pod, &r.Client, downEnded, upEnded)
	return errors.Join(<-up, down)
}

func (r *Relay) close() { _ = r.Client.Conn.Close(); _ = r.Pod.Conn.Close() }

// one relays one way. A failure, or a defect of ours, ends this relay and no other: no server
// recovers what panics on a relay's goroutines.
func (r *Relay) one(src, dst *End, ended chan<- struct{}, other <-chan struct{}) (err error) {
	defer func() {
		if defect := recover(); defect != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrDefect, defect, debug.Stack())
		}
		if err != nil {
			r.close() // frees the other direction
		}
		close(ended)
		if err == nil && !r.outlasts(other) {
			r.close()
			err = ErrIdle
		}
	}()
	return r.copy(src, dst)
}

// outlasts waits until the other direction has ended too; false if nothing was sent for too long. That
// direction does not see it when it waits to write: only reads have deadlines, and the one here, which
// would have passed, is over.
func (r *Relay) outlasts(other <-chan struct{}) bool {
	for left := r.Idle; left > 0; left = r.Idle - time.Since(time.Unix(0, r.lastSent.Load())) {
		timer := time.NewTimer(left)
		select {
		case <-other:
			timer.Stop()
			return true
		case <-timer.C:
		}
	}
	return false
}

// copy moves what src sends to dst, and tells dst when src has no more.
func (r *Relay) copy(src, dst *End) error {
	if len(src.Early) > 0 {
		if _, err := dst.Conn.Write(src.Early); err != nil {
			return fmt.Errorf("relaying: %w", err)
		}
		src.counted(int64(len(src.Early)))
		src.Early = nil
	}
	in := newReceiver(src.Conn)
	from, to := plainTCP(src.Conn), plainTCP(dst.Conn)
	for {
		if err := src.Conn.SetReadDeadline(time.Now().Add(r.limit())); err != nil {
			return fmt.Errorf("relaying: %w", err)
		}
		n, full, err := in.pass(dst.Conn)
		r.note(src, int64(n))
		if err == nil && full && from != nil && to != nil {
			err = r.bulk(src, from, to)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return r.halfClose(dst)
		case errors.Is(err, os.ErrDeadlineExceeded):
			if n == 0 && time.Since(time.Unix(0, r.lastSent.Load())) >= r.limit() {
				return ErrIdle
			}
		default:
			return fmt.Errorf("relaying: %w", err)
		}
	}
}

// bulk lets the kernel move bytes for as long as they keep coming. A splice holds a pipe while it
// waits, so it does not wait long.
func (r *Relay) bulk(src *End, from, to *net.TCPConn) error {
	for {
		if err := from.SetReadDeadline(time.Now().Add(bulkPause)); err != nil {
			return err //nolint:wrapcheck // copy wraps it
		}
		n, err := io.CopyN(to, from, relayChunk)
		r.note(src, n)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // copy wraps it
		}
	}
}

func (r *Relay) note(src *End, n int64) {
	if n > 0 {
		src.counted(n)
		r.lastSent.Store(time.Now().UnixNano())
	}
}

func (r *Relay) limit() time.Duration {
	if r.halfEnded.Load() {
		half := r.HalfIdle
		if half == 0 {
			half = DefaultHalfIdle
		}
		return min(r.Idle, half)
	}
	return r.Idle
}

// halfClose tells dst that nothing more comes, and leaves the way back open.
func (r *Relay) halfClose(dst *End) error {
	r.halfEnded.Store(true)
	half, ok := dst.Conn.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	if err := half.CloseWrite(); err != nil {
		return fmt.Errorf("closing one way: %w", err)
	}
	// The other direction waits with the long limit; it looks again now.
	_ = dst.Conn.SetReadDeadline(time.Now().Add(r.limit()))
	return nil
}
