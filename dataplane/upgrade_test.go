// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/headers"
)

// dial opens a raw connection to the data plane that ends with the test.
func (w *world) dial() *net.TCPConn {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn.(*net.TCPConn)
}

const handshakeLines = "Host: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer " + adminToken + "\r\n"

// switched sends a handshake, with what is to follow it in the same packet, and reads the 101.
func switched(t *testing.T, conn net.Conn, path, behind string) *bufio.Reader {
	t.Helper()
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\n"+handshakeLines+"\r\n"+behind); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(res.Body)
		t.Fatalf("got %d %s", res.StatusCode, body)
	}
	return in
}

// switcher is a pod that answers 101, writes early in the same packet, and hands the connection over.
func switcher(early string, then func(net.Conn, *bufio.Reader)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSet-Cookie: a=b; Domain=evil\r\nStrict-Transport-Security: max-age=1\r\n\r\n"+early)
		then(conn, buffered.Reader)
	})
}

func echoWebSocket() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{Subprotocols: []string{"chat"}}
		conn, err := up.Upgrade(w, r, http.Header{"X-Sandbox-Got-Token": {r.Header.Get(headers.ControlToken)}, "X-Sandbox-Got-Protocols": {r.Header.Get(access.ProtocolHeader)}, "X-Sandbox-Got-Origin": r.Header["Origin"]})
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			kind, data, err := conn.ReadMessage()
			if err != nil {
				return
			}
			if err := conn.WriteMessage(kind, data); err != nil {
				return
			}
		}
	})
}

func (w *world) websocket(path string, header http.Header, protocols ...string) (*websocket.Conn, *http.Response) {
	w.t.Helper()
	dialer := websocket.Dialer{Subprotocols: protocols}
	conn, res, err := dialer.DialContext(w.t.Context(), "ws"+strings.TrimPrefix(w.url, "http")+path, header)
	if err != nil {
		w.t.Fatalf("opening a WebSocket: %v (%v)", err, res)
	}
	w.t.Cleanup(func() { conn.Close() })
	return conn, res
}

func wantEcho(t *testing.T, conn *websocket.Conn, message string) {
	t.Helper()
	if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
		t.Fatal(err)
	}
	if _, got, err := conn.ReadMessage(); err != nil || string(got) != message {
		t.Fatalf("got %q, %v; want %q", got, err, message)
	}
}

func TestAWebSocketEchoesThroughProxy(t *testing.T) {
	w := newWorld(t, echoWebSocket())
	t.Run("with a bearer header", func(t *testing.T) {
		conn, res := w.websocket(demo+"proxy/ws", http.Header{"Authorization": {"Bearer " + adminToken}, "Origin": {"https://preview.example"}})
		for i := range 100 {
			wantEcho(t, conn, strings.Repeat(strconv.Itoa(i), i*50+1))
		}
		if got := res.Header.Get("X-Sandbox-Got-Token"); got != "" {
			t.Errorf("proxy got the control token")
		}
	})
	for name, c := range map[string]struct {
		path   string
		origin []string
		want   string
	}{
		"a page's Origin agrees with the Host that the app sees": {"proxy/ws", []string{"https://preview.example"}, "http://localhost"},
		"so does one without a name":                             {"proxy/ws", []string{"null"}, "http://localhost"},
		"several become one":                                     {"proxy/ws", []string{"https://a.example", "https://b.example"}, "http://localhost"},
		"a program that sends none gets none":                    {"proxy/ws", nil, ""},
		"a control server gets none":                             {"echo", []string{"https://preview.example"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{"Authorization": {"Bearer " + adminToken}}
			if c.origin != nil {
				header["Origin"] = c.origin
			}
			conn, res := w.websocket(demo+c.path, header)
			wantEcho(t, conn, "hello")
			if got := strings.Join(res.Header["X-Sandbox-Got-Origin"], "|"); got != c.want {
				t.Errorf("the pod got Origin %q, want %q", got, c.want)
			}
		})
	}
	t.Run("with the token in a subprotocol, which the pod does not see", func(t *testing.T) {
		conn, res := w.websocket(demo+"proxy/ws", nil, access.BearerProtocolPrefix+base64.RawURLEncoding.EncodeToString([]byte(adminToken)), "chat")
		wantEcho(t, conn, "hello")
		if got := res.Header.Get("X-Sandbox-Got-Protocols"); got != "chat" {
			t.Errorf("the pod was offered %q", got)
		}
		if conn.Subprotocol() != "chat" {
			t.Errorf("the subprotocol is %q", conn.Subprotocol())
		}
	})
	t.Run("a control verb with upgrade gets the control token", func(t *testing.T) {
		conn, res := w.websocket(demo+"echo", http.Header{"Authorization": {"Bearer " + adminToken}})
		wantEcho(t, conn, "hello")
		if got := res.Header.Get("X-Sandbox-Got-Token"); got != controlToken {
			t.Errorf("the pod got token %q", got)
		}
	})
}

func TestBytesAroundTheSwitchAreKept(t *testing.T) {
	received := make(chan string, 1)
	w := newWorld(t, switcher("early from the pod;", func(conn net.Conn, in *bufio.Reader) {
		data, _ := io.ReadAll(in) // until the caller half-closes
		received <- string(data)
		_, _ = io.WriteString(conn, "late from the pod")
	}))
	conn := w.dial()
	in := switched(t, conn, demo+"proxy", "early from the caller;")
	early := make([]byte, len("early from the pod;"))
	if _, err := io.ReadFull(in, early); err != nil || string(early) != "early from the pod;" {
		t.Fatalf("got %q, %v", early, err)
	}
	if _, err := io.WriteString(conn, "late from the caller"); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != "early from the caller;late from the caller" {
		t.Errorf("the pod got %q", got)
	}
	// The way back is still open after the caller has half-closed.
	if got, err := io.ReadAll(in); err != nil || string(got) != "late from the pod" {
		t.Errorf("the caller got %q, %v", got, err)
	}
}

func TestAHalfCloseOfThePodLeavesTheWayThereOpen(t *testing.T) {
	received := make(chan string, 1)
	w := newWorld(t, switcher("bye", func(conn net.Conn, in *bufio.Reader) {
		_ = conn.(*net.TCPConn).CloseWrite()
		data, _ := io.ReadAll(in)
		received <- string(data)
	}))
	conn := w.dial()
	in := switched(t, conn, demo+"proxy", "")
	if got, err := io.ReadAll(in); err != nil || string(got) != "bye" {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := io.WriteString(conn, "still here"); err != nil {
		t.Fatal(err)
	}
	_ = conn.CloseWrite()
	if got := <-received; got != "still here" {
		t.Errorf("the pod got %q", got)
	}
}

// Goroutines that an abort leaves behind fail TestMain (goleak).
func TestAnAbortEndsBothSides(t *testing.T) {
	for name, abort := range map[string]func(*net.TCPConn){
		"the caller resets":  func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
		"the caller closes":  func(c *net.TCPConn) { c.Close() },
		"nobody but the pod": nil,
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			w := newWorld(t, switcher("", func(conn net.Conn, in *bufio.Reader) {
				defer close(ended)
				if abort == nil {
					_ = conn.(*net.TCPConn).SetLinger(0)
					return
				}
				_, _ = io.Copy(io.Discard, in)
			}))
			conn := w.dial()
			in := switched(t, conn, demo+"proxy", "")
			if abort != nil {
				abort(conn)
			} else if _, err := in.ReadByte(); err == nil {
				t.Error("the caller did not learn that the pod has gone")
			}
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatal("the pod did not learn that the caller has gone")
			}
		})
	}
}

func TestUpgradesThatAreRefused(t *testing.T) {
	w := newWorld(t, echoWebSocket())
	for name, c := range map[string]struct {
		path, header string
		code         int
	}{
		"a verb without upgrade":             {demo + "log", "Connection: Upgrade\r\nUpgrade: websocket", 400},
		"h2c":                                {demo + "proxy", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA", 400},
		"websocket beside another protocol":  {demo + "proxy", "Connection: Upgrade\r\nUpgrade: websocket, h2c", 400},
		"two Upgrade headers":                {demo + "proxy", "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c", 400},
		"Upgrade without Connection":         {demo + "proxy", "Upgrade: websocket", 400},
		"an upgrade with a body":             {demo + "proxy", "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 4\r\n\r\nGET ", 400},
		"an upgrade with a chunked body":     {demo + "proxy", "Connection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n0", 400},
		"an upgrade by POST":                 {demo + "proxy", "Connection: Upgrade\r\nUpgrade: websocket", 400},
		"CONNECT in the name of an instance": {demo + "proxy", "", 405},
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.dial()
			method := "GET"
			switch {
			case c.code == 405:
				method = "TRACE"
			case name == "an upgrade by POST":
				method = "POST"
			}
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", method, c.path, adminToken, c.header)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			wantStatus(t, res, string(body), c.code)
		})
	}
}

// CVE-2018-1002105: an upgrade that failed left a connection to the backend on which the caller
// could send what it liked, with the proxy's credential.
func TestARefusedUpgradeGivesNoConnection(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		code   int
	}{
		"200":                {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200},
		"403":                {"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", 403},
		"500":                {"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno", 500},
		"a redirect is 502":  {"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n", 502},
		"another protocol":   {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 502},
		"a 101 without any":  {"HTTP/1.1 101 Switching Protocols\r\n\r\n", 502},
		"something not HTTP": {"hello\r\n\r\n", 502},
		"a long refusal":     {"HTTP/1.1 403 Forbidden\r\n\r\n" + strings.Repeat("x", 2*(1<<20)), 403},
	} {
		t.Run(name, func(t *testing.T) {
			after := make(chan string, 1)
			w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, buffered, err := http.NewResponseController(w).Hijack()
				if err != nil {
					panic(err)
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, c.answer)
				data, _ := io.ReadAll(buffered)
				after <- string(data)
			}))
			conn := w.dial()
			fmt.Fprintf(conn, "GET %sproxy HTTP/1.1\r\n%s\r\n", demo, handshakeLines)
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != c.code || len(body) > (1<<20) {
				t.Errorf("got %d and %d bytes (%v), want %d", res.StatusCode, len(body), err, c.code)
			}
			_, _ = io.WriteString(conn, "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
			if got := <-after; got != "" {
				t.Errorf("the pod got %q after its refusal", got)
			}
			if c.code != 502 {
				if _, err := http.ReadResponse(in, nil); err == nil {
					t.Error("the caller's connection lives on")
				}
			}
		})
	}
}

func TestA101IsFilteredToo(t *testing.T) {
	w := newWorld(t, switcher("", func(net.Conn, *bufio.Reader) {}))
	conn := w.dial()
	_, _ = io.WriteString(conn, "GET "+demo+"proxy HTTP/1.1\r\n"+handshakeLines+"\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Header.Get("Strict-Transport-Security") != "" || strings.Contains(res.Header.Get("Set-Cookie"), "Domain") {
		t.Errorf("got %v", res.Header)
	}
}
