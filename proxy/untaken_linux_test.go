// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/relay"
)

// The kernel keeps the limit; that a connection has it from its listener is what could go wrong here.
func TestAConnectionOfAClientThatTakesNothingIsBounded(t *testing.T) {
	w := newWorld(t, intercept.TCP, newTCP(t, greeter), "")
	w.dial()
	eventually(t, "the connection is held", func() bool { return valueOf(w.proxy.metrics.connections) == 1 })
	w.proxy.clients.mu.Lock()
	defer w.proxy.clients.mu.Unlock()
	for c := range w.proxy.clients.conns {
		if got := optionOf(t, c.Conn, unix.TCP_USER_TIMEOUT, time.Millisecond); got != UntakenTimeout {
			t.Errorf("the limit is %v, want %v", got, UntakenTimeout)
		}
	}
}

// optionOf returns an option that a connection has at TCP, which counts in a unit.
func optionOf(t *testing.T, conn net.Conn, option int, unit time.Duration) time.Duration {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var value int
	var failed error
	if err := raw.Control(func(fd uintptr) { value, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option) }); err != nil || failed != nil {
		t.Fatalf("reading option %d: %v, %v", option, err, failed)
	}
	return time.Duration(value) * unit
}

// A node that is gone without a word holds no request up for longer than its limits; again it is the kernel that keeps them.
func TestABackendThatIsGoneIsFoundOut(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), "")
	conn, err := w.proxy.dial(t.Context(), w.config.Ports[0].Baseline)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := optionOf(t, conn, unix.TCP_USER_TIMEOUT, time.Millisecond); got != BackendUntakenTimeout {
		t.Errorf("it may take nothing for %v, want %v", got, BackendUntakenTimeout)
	}
	got := optionOf(t, conn, unix.TCP_KEEPIDLE, time.Second)
	for range optionOf(t, conn, unix.TCP_KEEPCNT, 1) {
		got += optionOf(t, conn, unix.TCP_KEEPINTVL, time.Second)
	}
	if got != BackendSilentTimeout {
		t.Errorf("it may be silent for %v, want %v", got, BackendSilentTimeout)
	}
}

// What is not HTTP may be held up for longer.
func TestABackendOfAnotherProtocolMayHoldItsClientUp(t *testing.T) {
	w := newWorld(t, intercept.TCP, newTCP(t, greeter), "")
	backend, err := w.proxy.dial(t.Context(), w.config.Ports[0].Baseline)
	if err != nil {
		t.Fatal(err)
	}
	ours, client := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.proxy.ports[0].relay(t.Context(), &clientConn{Conn: ours, port: w.proxy.ports[0]}, relay.End{Conn: backend})
	}()
	if _, err := client.Read(make([]byte, 1)); err != nil { // so the relay has begun
		t.Fatal(err)
	}
	if got := optionOf(t, backend, unix.TCP_USER_TIMEOUT, time.Millisecond); got != UntakenTimeout {
		t.Errorf("it may take nothing for %v, want %v", got, UntakenTimeout)
	}
	client.Close()
	<-ended
}
