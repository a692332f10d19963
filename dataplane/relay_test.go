// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

func TestARelayThatIsIdleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, caller := net.Pipe()
		pod, podPeer := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, podPeer) }()
		r := relay{ctx: t.Context(), idle: time.Minute, client: end{client, nil, new(atomic.Int64)}, pod: end{pod, nil, new(atomic.Int64)}}
		ended := make(chan error, 1)
		go func() { ended <- r.run() }()
		for range 5 { // progress one way keeps it open for longer than the limit
			time.Sleep(40 * time.Second)
			if _, err := caller.Write([]byte("x")); err != nil {
				t.Fatalf("a relay with progress ended: %v", err)
			}
		}
		last := time.Now()
		if err := <-ended; !errors.Is(err, errIdle) {
			t.Errorf("ended with %v", err)
		}
		if idle := time.Since(last); idle < time.Minute || idle > 2*time.Minute {
			t.Errorf("ended after %v without progress, the limit is %v", idle, r.idle)
		}
	})
}

// silent is a side of a pipe that can be told that nothing more comes.
type silent struct{ net.Conn }

func (silent) CloseWrite() error { return nil }

// An app that leaves its side open when the caller has nothing more to say would else hold the stream
// for as long as one may idle.
func TestWhatIsLeftOfARelayEndsSoonWhenItIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, caller := net.Pipe()
		pod, podPeer := net.Pipe()
		defer podPeer.Close()
		r := relay{ctx: t.Context(), idle: time.Hour, client: end{silent{client}, nil, new(atomic.Int64)}, pod: end{silent{pod}, nil, new(atomic.Int64)}}
		ended := make(chan error, 1)
		go func() { ended <- r.run() }()
		synctest.Wait() // both directions wait with the long limit
		began := time.Now()
		caller.Close()
		if err := <-ended; !errors.Is(err, errIdle) || time.Since(began) != halfCloseIdle {
			t.Errorf("ended after %v with %v", time.Since(began), err)
		}
	})
}

// The direction that is left waits to write, and the side whose reads would have told has no more to say.
func TestARelayEndsWhenACallerWhoHasHalfClosedTakesNothing(t *testing.T) {
	client, caller := tcpPair(t)
	pod, podPeer := tcpPair(t)
	r := relay{ctx: t.Context(), idle: 100 * time.Millisecond, client: end{client, nil, new(atomic.Int64)}, pod: end{pod, nil, new(atomic.Int64)}}
	ended, sent := make(chan error, 1), make(chan struct{})
	go func() { ended <- r.run() }()
	go func() {
		defer close(sent)
		_, _ = io.Copy(podPeer, zeros{})
	}()
	if err := caller.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, errIdle) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the relay goes on although nothing is taken")
		client.Close()
	}
	<-sent
}

func TestARelayMovesMuchBothWays(t *testing.T) {
	w := newWorld(t, switcher("", func(conn net.Conn, in *bufio.Reader) { _, _ = io.Copy(conn, in) }))
	conn := w.dial()
	in := switched(t, conn, demo+"proxy", "")
	const size = 16 << 20
	go func() {
		_, _ = io.CopyN(conn, zeros{}, size)
		_ = conn.CloseWrite()
	}()
	n, err := io.Copy(io.Discard, in)
	if err != nil || n != size {
		t.Errorf("got %d bytes back (%v), want %d", n, err, size)
	}
	eventually(t, "the bytes are counted", func() bool {
		return strings.Contains(w.logs.String(), fmt.Sprintf(`"bytesIn":%d,"bytesOut":%d`, size, size))
	})
}

// Bulk goes from socket to socket in the kernel, by way of a pipe; a wrapper around either side would
// end that unseen. While nobody takes it, the pipe has it.
func TestTheKernelMovesWhatIsMuch(t *testing.T) {
	w := newWorld(t, switcher("", func(conn net.Conn, _ *bufio.Reader) { _, _ = io.Copy(conn, zeros{}) }))
	conn := w.dial()
	switched(t, conn, demo+"proxy", "")
	eventually(t, "bytes are in a pipe", func() bool {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if kind, _ := os.Readlink("/proc/self/fd/" + file.Name()); !strings.HasPrefix(kind, "pipe:") {
				continue
			}
			if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
				if n, err := unix.IoctlGetInt(fd, unix.TIOCINQ); err == nil && n > 0 {
					return true
				}
			}
		}
		return false
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestARelayEndsWithItsContext(t *testing.T) {
	client, clientPeer := tcpPair(t)
	pod, podPeer := tcpPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	r := relay{ctx: ctx, idle: time.Hour, client: end{client, nil, new(atomic.Int64)}, pod: end{pod, nil, new(atomic.Int64)}}
	ended := make(chan error)
	go func() { ended <- r.run() }()
	cancel()
	<-ended
	for _, peer := range []net.Conn{clientPeer, podPeer} {
		if _, err := peer.Read(make([]byte, 1)); err == nil {
			t.Error("a side is still open")
		}
	}
}

// Nothing else recovers what panics on a relay's goroutines: it would end everybody's streams.
func TestADefectEndsOneRelay(t *testing.T) {
	for name, reverse := range map[string]bool{"on the way to the pod": false, "on the way back": true} {
		t.Run(name, func(t *testing.T) {
			whole, peer := tcpPair(t)
			broken, _ := tcpPair(t)
			r := relay{ctx: t.Context(), idle: time.Hour, client: end{defective{broken}, nil, new(atomic.Int64)}, pod: end{whole, nil, new(atomic.Int64)}}
			if reverse {
				r.client, r.pod = r.pod, r.client
			}
			if err := r.run(); !errors.Is(err, errDefect) {
				t.Errorf("ended with %v", err)
			}
			if _, err := peer.Read(make([]byte, 1)); err == nil {
				t.Error("a side is still open")
			}
		})
	}
}

type defective struct{ net.Conn }

func (defective) Read([]byte) (int, error) { panic("a defect") }

func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return rawconn.Of(a), b // as the listener and the transport make them
}
