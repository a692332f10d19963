// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/proxyrules"
)

func TestAWebSocketPasses(t *testing.T) {
	upgrader := websocket.Upgrader{}
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, http.Header{"X-Who": {"copy"}})
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			kind, message, err := conn.ReadMessage()
			if err != nil {
				return
			}
			_ = conn.WriteMessage(kind, message)
		}
	})
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, echo))
	conn, res, err := websocket.DefaultDialer.Dial("ws://"+w.address+"/socket", http.Header{"Baggage": {ownBaggage}})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.Header.Get("X-Who") != "copy" {
		t.Errorf("the answer's header is %v", res.Header)
	}
	for _, message := range []string{"one", strings.Repeat("two", 100_000)} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := conn.ReadMessage(); err != nil || string(got) != message {
			t.Fatalf("got %.20q, %v", got, err)
		}
	}
	conn.Close()
	eventually(t, "the place of the copy is given back", func() bool {
		w.proxy.slots.mu.Lock()
		defer w.proxy.slots.mu.Unlock()
		return w.proxy.slots.total == 0
	})
}

// A WebSocket to a copy that nobody leads anything to any more ends.
func TestAnUpgradedConnectionEndsBehindItsRule(t *testing.T) {
	t.Parallel()
	echo := newTCP(t, func(_ int, conn *net.TCPConn) {
		in := bufio.NewReader(conn)
		if _, err := readHead(in); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\n")
		_, _ = io.Copy(conn, in)
	})
	w := newWorld(t, intercept.HTTP, echo, echo, func(o *Options) { o.Drain = 50 * time.Millisecond })
	open := func(header string) (net.Conn, *bufio.Reader) {
		conn := w.dial()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: own\r\n"+header+"\r\n")
		in := bufio.NewReader(conn)
		if _, err := readHead(in); err != nil {
			t.Fatal(err)
		}
		return conn, in
	}
	says := func(conn net.Conn, in *bufio.Reader) error {
		_, _ = io.WriteString(conn, "x\n")
		_, err := in.ReadString('\n')
		return err
	}
	conn, in := open("Baggage: " + ownBaggage + "\r\n")
	others, othersIn := open("")
	if err := says(conn, in); err != nil {
		t.Fatalf("with its rule it ended: %v", err)
	}
	w.config.Rules = []intercept.Rule{ruleFor(otherID, echo)}
	w.apply()
	_ = conn.SetReadDeadline(time.Now().Add(15 * time.Second))
	if _, err := in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without its rule it goes on: %v", err)
	}
	if err := says(others, othersIn); err != nil {
		t.Errorf("that of the baseline ended: %v", err)
	}
	others.Close()
	eventually(t, "none is held", func() bool {
		w.proxy.led.mu.Lock()
		defer w.proxy.led.mu.Unlock()
		return len(w.proxy.led.conns) == 0
	})
}

func TestAnUpgradedConnectionHasTheTimeOfADrainWithoutItsRule(t *testing.T) {
	const within = time.Minute
	synctest.Test(t, func(t *testing.T) {
		own, others := tableOf(t, ruleFor(ownID, "a:80")), tableOf(t, ruleFor(otherID, "a:80"), ruleFor(ownID, "b:80"))
		l := &led{within: within, table: own, conns: map[*ledConn]struct{}{}}
		ctx, done := l.begin(t.Context(), ownID, "a:80")
		defer done()
		for range 3 {
			l.apply(others)
			l.apply(others) // the time goes on from the first
			time.Sleep(within - 1)
			l.apply(own) // in time
			time.Sleep(within)
			if ctx.Err() != nil {
				t.Fatal("it has ended though its rule came back")
			}
		}
		l.apply(others)
		late, lateDone := l.begin(t.Context(), ownID, "a:80") // its rule has gone since it was compared
		defer lateDone()
		time.Sleep(within)
		synctest.Wait()
		if ctx.Err() == nil || late.Err() == nil {
			t.Errorf("without the rule: %v, and %v", ctx.Err(), late.Err())
		}
	})
}

// tableOf is that of a document.
func tableOf(t *testing.T, rules ...intercept.Rule) *proxyrules.Table {
	t.Helper()
	document, err := json.Marshal(intercept.Config{
		Service: service, Rules: rules, Ports: []intercept.Port{{Listen: 80, Baseline: "10.0.0.1:80", Protocol: intercept.HTTP}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, table, err := proxyrules.Parse(document, service)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// Both sides may say something in the packet of the handshake, and end their half.
func TestWhatComesWithTheHandshakePasses(t *testing.T) {
	backend := newTCP(t, func(_ int, conn *net.TCPConn) {
		in := bufio.NewReader(conn)
		if _, err := readHead(in); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\nserver first;")
		rest, _ := io.ReadAll(in)
		_, _ = conn.Write(rest)
	})
	w := newWorld(t, intercept.HTTP, backend, "")
	answer := w.say("POST /x HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: own\r\n\r\nclient first;")
	head, rest, _ := strings.Cut(answer, "\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.1 101 ") || rest != "server first;client first;" {
		t.Errorf("answered %q", answer)
	}
}

func TestAnUpgradeThatIsNotSafeGoesOnAsARequest(t *testing.T) {
	for name, request := range map[string]string{
		"to HTTP/2":       "GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nHost: x\r\n\r\n",
		"with a body":     "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\nHost: x\r\n\r\nx",
		"with chunks":     "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\nHost: x\r\n\r\n0\r\n\r\n",
		"over HTTP/1.0":   "GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nHost: x\r\n\r\n",
		"not for the hop": "GET / HTTP/1.1\r\nUpgrade: websocket\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			backend := newRawBackend(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			w := newWorld(t, intercept.HTTP, backend.address, "")
			if answer := w.say(request); !strings.Contains(answer, " 200 OK\r\n") {
				t.Errorf("answered %q", answer)
			}
			if head := backend.last(t); strings.Contains(head, "Upgrade") || strings.Contains(head, "Http2-Settings") {
				t.Errorf("the backend got %q", head)
			}
		})
	}
}

func TestABackendThatSwitchesUnaskedGetsNoConnection(t *testing.T) {
	for name, request := range map[string]string{
		"asked for nothing": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"asked for another": "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			backend := newRawBackend(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\n")
			w := newWorld(t, intercept.HTTP, backend.address, "")
			if answer := w.say(request); !strings.HasPrefix(answer, "HTTP/1.1 502 ") || !strings.Contains(answer, "it switched to a protocol that was not asked for") {
				t.Errorf("answered %q", answer)
			}
		})
	}
}

func TestAnUpgradeThatIsRefusedIsAnAnswer(t *testing.T) {
	backend := newRawBackend(t, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
	w := newWorld(t, intercept.HTTP, backend.address, "")
	if answer := w.say("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nHost: x\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 403 ") || !strings.HasSuffix(answer, "no") {
		t.Errorf("answered %q", answer)
	}
}
