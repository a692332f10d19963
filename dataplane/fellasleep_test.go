// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// usedLongAgo begins a world with the demo awake and its Lease old.
func usedLongAgo(s *setup) {
	asleep(s)
	s.suspended = ""
}

// asItDials has something happen when a pod is first looked for. Whether there is one is what it says.
func (w *world) asItDials(happen func(), thereIsOne bool) {
	var dials atomic.Int64
	w.server.handler.ways.PermitForTest(func(netip.Addr) bool {
		if dials.Add(1) > 1 {
			return true
		}
		happen()
		return thereIsOne
	})
}

// Between the look at an instance and its pod lie milliseconds in which it may fall asleep.
func TestARequestThatMeetsAnInstanceFallingAsleepWaitsForIt(t *testing.T) {
	for name, c := range map[string]struct{ method, verb, body string }{
		"a request with a body": {"POST", "sync", "x"},
		"a stream":              {"GET", "log", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := &counter{}
			w := newWorld(t, app, usedLongAgo)
			w.asItDials(func() { w.suspend(sandbarv1alpha1.SuspendedUnused) }, false)
			got := w.later(c.method, demo+c.verb, c.body)
			w.holds(1)
			w.wakeUp()
			if got := <-got; got.code != 200 || got.body != c.body || app.seen[c.body] != 1 {
				t.Errorf("got %d %s, the app %v", got.code, got.body, app.seen)
			}
		})
	}
}

func TestARequestWhosePodStoppedListeningInItsSleepWaits(t *testing.T) {
	address := unheardAddress(t)
	w := newWorld(t, nil, usedLongAgo, func(s *setup) { s.backendAddress = address })
	w.asItDials(func() { w.suspend(sandbarv1alpha1.SuspendedUnused) }, true)
	got := w.later("POST", demo+"sync", "x")
	w.holds(1)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	app := &httptest.Server{Listener: listener, Config: &http.Server{Handler: &counter{}}}
	app.Start()
	t.Cleanup(app.Close)
	w.wakeUp()
	if got := <-got; got.code != 200 || got.body != "x" {
		t.Errorf("got %d %s", got.code, got.body)
	}
}

// The pod has the request, and ends without an answer.
func TestWhatAPodMayHaveActedOnIsNotSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		method, verb, body string
		again              bool
	}{
		"a GET, which only asks": {"GET", "proxy", "", true},
		"a GET with a body":      {"GET", "proxy", "x", false},
		"a POST":                 {"POST", "sync", "x", false},
		"a POST without a body":  {"POST", "sync", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var (
				w       *world
				heard   atomic.Int64
				isAwake atomic.Bool
				pod     = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if isAwake.Load() {
						_, _ = io.WriteString(out, "hello")
						return
					}
					heard.Add(1)
					w.suspend(sandbarv1alpha1.SuspendedUnused)
					panic(http.ErrAbortHandler)
				})
			)
			w = newWorld(t, pod, usedLongAgo)
			got := w.later(c.method, demo+c.verb, c.body)
			if !c.again {
				if got := <-got; got.code != 502 || heard.Load() != 1 {
					t.Errorf("got %d %s, heard %d times", got.code, got.body, heard.Load())
				}
				return
			}
			w.holds(1)
			isAwake.Store(true)
			w.wakeUp()
			if got := <-got; got.code != 200 || got.body != "hello" {
				t.Errorf("got %d %s", got.code, got.body)
			}
		})
	}
}

func TestAWebSocketThatMeetsAnInstanceFallingAsleepWaitsForIt(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil); err == nil {
			_ = conn.WriteMessage(websocket.TextMessage, []byte("hello"))
			conn.Close()
		}
	}), usedLongAgo)
	w.asItDials(func() { w.suspend(sandbarv1alpha1.SuspendedUnused) }, false)
	got := make(chan string, 1)
	go func() {
		conn, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.url, "http")+demo+"echo", http.Header{"Authorization": {"Bearer " + adminToken}})
		if err != nil {
			got <- err.Error()
			return
		}
		defer conn.Close()
		_, message, _ := conn.ReadMessage()
		got <- string(message)
	}()
	w.holds(1)
	w.wakeUp()
	if got := <-got; got != "hello" {
		t.Errorf("got %s", got)
	}
}

// Somebody else's sleep is not waited for, and one's own once.
func TestWhatARequestHearsThatWaitsInVain(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(w *world)
		code    int
		reason  string
	}{
		"it is awake, and no pod is ready": {func(*world) {}, 409, refusal.CauseNotReady},
		"suspended by its tenant":          {func(w *world) { w.suspend(sandbarv1alpha1.SuspendedByUser) }, 409, refusal.CauseSuspended},
		"it does not wake":                 {func(w *world) { w.suspend(sandbarv1alpha1.SuspendedUnused) }, 503, refusal.CauseWakeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &counter{}, usedLongAgo, wakesWithin(100*time.Millisecond))
			w.asItDials(func() { c.happens(w) }, false)
			a := <-w.later("POST", demo+"sync", "x")
			wantStatus(t, a.res, a.body, c.code)
			eventually(t, "the reason is logged", func() bool { return w.lastReason() == c.reason })
			w.holds(0)
		})
	}
}

// The time that a pod has for its answer begins when it is asked, after the waking.
func TestAPodThatWasWokenHasItsTimeToAnswer(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}), usedLongAgo, func(s *setup) { s.opts.Limits.ResponseTimeout = 300 * time.Millisecond })
	w.asItDials(func() { w.suspend(sandbarv1alpha1.SuspendedUnused) }, false)
	got := w.later("POST", demo+"sync", "x")
	w.holds(1)
	w.wakeUp()
	a := <-got
	wantStatus(t, a.res, a.body, 504)
}
