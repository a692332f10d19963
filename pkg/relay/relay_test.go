// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

// TestMain fails if a test leaves a goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestARelayThatIsIdleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, caller := net.Pipe()
		pod, podPeer := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, podPeer) }()
		r := Relay{Context: t.Context(), Idle: time.Minute, Client: End{client, nil, new(atomic.Int64)}, Pod: End{pod, nil, new(atomic.Int64)}}
		ended := make(chan error, 1)
		go func() { ended <- r.Run() }()
		for range 5 { // progress one way keeps it open for longer than the limit
			time.Sleep(40 * time.Second)
			if _, err := caller.Write([]byte("x")); err != nil {
				t.Fatalf("a relay with progress ended: %v", err)
			}
		}
		last := time.Now()
		if err := <-ended; !errors.Is(err, ErrIdle) {
			t.Errorf("ended with %v", err)
		}
		if idle := time.Since(last); idle < time.Minute || idle > 2*time.Minute {
			t.Errorf("ended after %v without progress, the limit is %v", idle, r.Idle)
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
		r := Relay{Context: t.Context(), Idle: time.Hour, Client: End{silent{client}, nil, new(atomic.Int64)}, Pod: End{silent{pod}, nil, new(atomic.Int64)}}
		ended := make(chan error, 1)
		go func() { ended <- r.Run() }()
		synctest.Wait() // both directions wait with the long limit
		began := time.Now()
		caller.Close()
		if err := <-ended; !errors.Is(err, ErrIdle) || time.Since(began) != DefaultHalfIdle {
			t.Errorf("ended after %v with %v", time.Since(began), err)
		}
	})
}

// The direction that is left waits to write, and the side whose reads would have told has no more to say.
func TestARelayEndsWhenACallerWhoHasHalfClosedTakesNothing(t *testing.T) {
	client, caller := tcpPair(t)
	pod, podPeer := tcpPair(t)
	r := Relay{Context: t.Context(), Idle: 100 * time.Millisecond, Client: End{client, nil, new(atomic.Int64)}, Pod: End{pod, nil, new(atomic.Int64)}}
	ended, sent := make(chan error, 1), make(chan struct{})
	go func() { ended <- r.Run() }()
	go func() {
		defer close(sent)
		_, _ = io.Copy(podPeer, rand.Reader)
	}()
	if err := caller.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, ErrIdle) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the relay goes on although nothing is taken")
		client.Close()
	}
	<-sent
}

func TestARelayEndsWithItsContext(t *testing.T) {
	client, clientPeer := tcpPair(t)
	pod, podPeer := tcpPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	r := Relay{Context: ctx, Idle: time.Hour, Client: End{client, nil, new(atomic.Int64)}, Pod: End{pod, nil, new(atomic.Int64)}}
	ended := make(chan error)
	go func() { ended <- r.Run() }()
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
			r := Relay{Context: t.Context(), Idle: time.Hour, Client: End{defective{broken}, nil, new(atomic.Int64)}, Pod: End{whole, nil, new(atomic.Int64)}}
			if reverse {
				r.Client, r.Pod = r.Pod, r.Client
			}
			if err := r.Run(); !errors.Is(err, ErrDefect) {
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
