// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// shortUntaken stands for BackendUntakenTimeout.
const shortUntaken = time.Second

// late is a backend whose node does as a test says with a connection, before anything is read of it or before the body of a
// request is, and that says then how long the body was.
func late(t *testing.T, atRequest bool, then func(conn *net.TCPConn)) string {
	t.Helper()
	conns := make(chan *net.TCPConn, 8)
	counting := newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn := <-conns; atRequest {
			then(conn)
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, " ", err)
	}))
	return newTCP(t, func(_ int, conn *net.TCPConn) {
		backend, err := net.Dial("tcp", counting)
		if err != nil {
			return
		}
		defer backend.Close()
		conns <- conn
		if !atRequest {
			then(conn)
		}
		go func() { _, _ = io.Copy(conn, backend) }()
		_, _ = io.Copy(backend, conn)
	})
}

// uploadTo sends much to a backend.
func uploadTo(t *testing.T, backend string, http2 bool) (code int, said string, w *world) {
	t.Helper()
	w = newWorld(t, intercept.HTTP, backend, "", func(o *Options) { o.untaken = shortUntaken })
	res, said := w.ask(w.client(http2), w.request(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", uploaded))))
	return res.StatusCode, said, w
}

const uploaded = 16 << 20

// A backend in a debugger, or one that works on what it has, reads nothing, and its node says all the while that it is there.
func TestAnUploadWaitsForABackendThatReadsNothing(t *testing.T) {
	bothProtocols(t, func(t *testing.T, http2 bool) {
		t.Parallel()
		backend := late(t, false, func(*net.TCPConn) { time.Sleep(3 * shortUntaken) })
		if code, said, _ := uploadTo(t, backend, http2); code != http.StatusOK || said != fmt.Sprint(uploaded, " ", nil) {
			t.Errorf("answered %d %q", code, said)
		}
	})
}

// A filter that lets nothing in has the kernel see nothing of a connection: so a node is that is gone. Over HTTP/2 a request has more
// to send only once something of it was read.
func TestAnUploadToANodeThatIsGoneEnds(t *testing.T) {
	bothProtocols(t, func(t *testing.T, http2 bool) {
		t.Parallel()
		backend := late(t, http2, func(conn *net.TCPConn) {
			raw, err := conn.SyscallConn()
			if err != nil {
				return
			}
			nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
			_ = raw.Control(func(fd uintptr) {
				_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
			})
		})
		code, said, w := uploadTo(t, backend, http2)
		if code != http.StatusBadGateway || !strings.Contains(said, "acknowledged nothing") {
			t.Errorf("answered %d %q", code, said)
		}
		if n := w.failures(toBaseline, causeSilent); n != 1 {
			t.Errorf("%v are counted", n)
		}
	})
}

func TestWhatANodeThatIsGoneLooksLike(t *testing.T) {
	u := &uploads{untaken: BackendUntakenTimeout, shut: ShutTimeout}
	for name, c := range map[string]struct {
		of   flight
		want bool
	}{
		"it waits for an answer":                    {flight{silent: time.Hour}, false},
		"it has been sent something just now":       {flight{unacknowledged: true, waiting: true, silent: 29 * time.Second}, false},
		"it has acknowledged nothing for long":      {flight{unacknowledged: true, silent: 30 * time.Second}, true},
		"it has no room and will be asked for it":   {flight{waiting: true, shut: true, silent: 2 * time.Minute}, false},
		"the same, and it took some of it back":     {flight{unacknowledged: true, shut: true, silent: 2 * time.Minute}, false},
		"it has no room and answers no question":    {flight{waiting: true, shut: true, silent: 5 * time.Minute}, true},
		"it has little room and answers none":       {flight{waiting: true, silent: 5 * time.Minute}, true},
		"it has little room and was asked recently": {flight{waiting: true, silent: 2 * time.Minute}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := u.isLost(c.of); got != c.want {
				t.Errorf("it is gone: %t", got)
			}
		})
	}
}

// Requests of HTTP/2 share a connection: the limit comes back with the end of the last.
func TestAConnectionHasItsLimitAgainBehindTheLastBody(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), "")
	conn, err := w.proxy.dial(t.Context(), w.config.Ports[0].Baseline)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	limited := func(want time.Duration) {
		t.Helper()
		if got := optionOf(t, conn, unix.TCP_USER_TIMEOUT, time.Millisecond); got != want {
			t.Errorf("the limit is %v, want %v", got, want)
		}
	}
	limited(BackendUntakenTimeout)
	one, two := w.proxy.uploads.begin(conn), w.proxy.uploads.begin(conn)
	limited(0)
	one()
	limited(0)
	two()
	limited(BackendUntakenTimeout)
	if n := len(w.proxy.uploads.on); n != 0 {
		t.Errorf("%d connections are looked at", n)
	}
}
