// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rawconn_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandbar-dev/sandbar/pkg/rawconn"
	"github.com/sandbar-dev/sandbar/pkg/rawconn/rawconntest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is both ends of a connection; the first is what is tested.
func pair(t testing.TB) (*rawconn.Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	conn, ok := rawconn.Of(a).(*rawconn.Conn)
	if !ok {
		t.Fatal("a TCP connection was left as it is")
	}
	return conn, b.(*net.TCPConn)
}

// More than both sides' buffers hold, so that each has to wait for the other.
func TestWhatIsWrittenIsReadAndNothingElse(t *testing.T) {
	const size = 32 << 20
	conn, peer := pair(t)
	sent := make([]byte, size)
	_, _ = rand.Read(sent)
	go func() { // the peer sends it back
		_, _ = io.Copy(struct{ io.Writer }{peer}, struct{ io.Reader }{peer})
		_ = peer.CloseWrite()
	}()
	wrote := make(chan error, 1)
	go func() {
		n, err := conn.Write(sent)
		if n != size {
			err = errors.Join(err, io.ErrShortWrite)
		}
		wrote <- errors.Join(err, conn.CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	if err := errors.Join(err, <-wrote); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("got %d bytes that are not the %d that were sent", len(got), size)
	}
}

// Each is what a *net.TCPConn gives; net/http and the relay tell ends apart by them.
func TestEndsAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(conn *rawconn.Conn, peer *net.TCPConn) error
		want error
		op   string
	}{
		"the peer has no more": {
			do: func(conn *rawconn.Conn, peer *net.TCPConn) error {
				_ = peer.CloseWrite()
				return readOne(conn)
			},
			want: io.EOF,
		},
		"nothing to read in time": {
			do: func(conn *rawconn.Conn, _ *net.TCPConn) error {
				_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
				return readOne(conn)
			},
			want: os.ErrDeadlineExceeded, op: "read",
		},
		"nobody takes it in time": {
			do: func(conn *rawconn.Conn, _ *net.TCPConn) error {
				_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
				_, err := conn.Write(make([]byte, 64<<20))
				return err
			},
			want: os.ErrDeadlineExceeded, op: "write",
		},
		"closed while it waits": {
			do: func(conn *rawconn.Conn, _ *net.TCPConn) error {
				time.AfterFunc(time.Millisecond, func() { conn.Close() })
				return readOne(conn)
			},
			want: net.ErrClosed, op: "read",
		},
		"written after it was closed": {
			do: func(conn *rawconn.Conn, _ *net.TCPConn) error {
				conn.Close()
				_, err := conn.Write([]byte("x"))
				return err
			},
			want: net.ErrClosed, op: "write",
		},
		"the peer reset it": {
			do: func(conn *rawconn.Conn, peer *net.TCPConn) error {
				_ = peer.SetLinger(0)
				peer.Close()
				return readOne(conn)
			},
			want: syscall.ECONNRESET, op: "read",
		},
		"written to a peer that has gone": {
			do: func(conn *rawconn.Conn, peer *net.TCPConn) error {
				_ = peer.SetLinger(0)
				peer.Close()
				_ = readOne(conn)
				_, err := conn.Write([]byte("x"))
				return err
			},
			want: syscall.EPIPE, op: "write",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.do(pair(t))
			if wrapped := c.want == io.EOF && err != io.EOF; wrapped || !errors.Is(err, c.want) { //nolint:errorlint // readers compare with io.EOF itself
				t.Fatalf("got %v, want %v", err, c.want)
			}
			var own *net.OpError
			if c.op != "" && (!errors.As(err, &own) || own.Op != c.op || own.Net != "tcp" || own.Addr == nil || own.Source == nil) {
				t.Errorf("got %#v, want a *net.OpError of a %s with both addresses", err, c.op)
			}
			if timeout := errors.Is(c.want, os.ErrDeadlineExceeded); own != nil && own.Timeout() != timeout {
				t.Errorf("it says that it is a timeout: %v", own.Timeout())
			}
		})
	}
}

func readOne(conn *rawconn.Conn) error {
	n, err := conn.Read(make([]byte, 1))
	if err != nil && n != 0 {
		return fmt.Errorf("%d bytes came with an error: %w", n, err)
	}
	return err
}

// A failed call must not be the result of the next one.
func TestAConnectionGoesOnAfterADeadline(t *testing.T) {
	conn, peer := pair(t)
	_ = conn.SetReadDeadline(time.Unix(1, 0))
	if err := readOne(conn); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	if _, err := peer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := readOne(conn); err != nil {
		t.Errorf("got %v", err)
	}
	if n, err := conn.Read(nil); n != 0 || err != nil {
		t.Errorf("reading nothing gave %d %v, which would be taken for an end", n, err)
	}
}

// Nothing interrupts a goroutine that writes, so after 64 KiB others have their turn. Two turns are given: every 61st time the
// scheduler takes the one that has just given way (runtime.findRunnable looks at the global queue first).
func TestWhoWritesMuchGivesWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	conn, other := pair(t)
	// Room for all of it: who waits gives way in any case.
	if err := errors.Join(conn.SetWriteBuffer(1<<20), other.SetReadBuffer(1<<20)); err != nil {
		t.Fatal(err)
	}
	var had atomic.Bool
	go had.Store(true)
	for range 2 * 64 {
		if _, err := conn.Write(make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if !had.Load() {
		t.Error("twice 64 KiB were written, and nobody else had a turn")
	}
}

func TestQuietTellsWhetherSomethingIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		peer func(*net.TCPConn)
		want bool
	}{
		"nothing": {func(*net.TCPConn) {}, true},
		"a byte":  {func(p *net.TCPConn) { _, _ = p.Write([]byte("x")) }, false},
		"an end":  {func(p *net.TCPConn) { _ = p.CloseWrite() }, false},
		"a reset": {func(p *net.TCPConn) { _ = p.SetLinger(0); p.Close() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			conn, peer := pair(t)
			c.peer(peer)
			raw, err := conn.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			quiet := false
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			err = raw.Read(func(fd uintptr) bool {
				quiet = rawconn.Quiet(fd)
				return quiet == c.want // else wait for it
			})
			if err != nil || quiet != c.want {
				t.Fatalf("quiet: %v, error %v", quiet, err)
			}
		})
	}
}

func TestOtherConnectionsAreLeftAsTheyAre(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if rawconn.Of(a) != a {
		t.Error("a pipe was wrapped")
	}
}

// BenchmarkWrite is what a call costs beside one of package net, when nobody has to wake.
func BenchmarkWrite(b *testing.B) {
	for name, pick := range map[string]func(*rawconn.Conn) net.Conn{
		"net": func(c *rawconn.Conn) net.Conn { return c.TCPConn },
		"raw": func(c *rawconn.Conn) net.Conn { return c },
	} {
		b.Run(name, func(b *testing.B) {
			conn, peer := pair(b)
			go func() { _, _ = io.Copy(io.Discard, peer) }()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := pick(conn).Write([]byte("x")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The kernel counts the segments that left: three without the cork. It waits for 200 ms only, so a
// machine that stands still meanwhile has further tries.
func TestWhatIsWrittenUnderACorkLeavesAsOne(t *testing.T) {
	conn, peer := pair(t)
	left := uint32(0)
	for range 10 {
		before := rawconntest.Info(t, conn).Data_segs_out
		conn.Cork()
		for _, part := range []string{"one ", "two ", "three"} {
			if _, err := io.WriteString(conn, part); err != nil {
				t.Fatal(err)
			}
		}
		conn.Uncork()
		left = rawconntest.Info(t, conn).Data_segs_out - before
		got := make([]byte, len("one two three"))
		if _, err := io.ReadFull(peer, got); err != nil || string(got) != "one two three" {
			t.Fatalf("got %q, %v", got, err)
		}
		if left == 1 {
			return
		}
	}
	t.Errorf("%d segments left, not 1", left)
}

func TestACorkOnAConnectionThatHasEndedDoesNothing(t *testing.T) {
	conn, _ := pair(t)
	conn.Close()
	conn.Cork()
	conn.Uncork()
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write gave %v", err)
	}
}
