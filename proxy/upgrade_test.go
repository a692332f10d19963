// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/sandbar-dev/sandbar/apis/intercept"
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
