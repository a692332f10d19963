// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// lengthFront is a front that frames requests by Content-Length alone, waits for an answer before
// it sends the next request, and sends the requests of all its clients on one connection for as
// long as the data plane keeps that. Each of these is allowed or common; together they are what an
// attacker wants.
type lengthFront struct {
	t       *testing.T
	address string
	conn    net.Conn
	in      *bufio.Reader
	dialled int
}

// exchange takes one client's request to the data plane, cut after the body that Content-Length
// states, and returns the answer's code; 0 if the connection ended without one.
func (f *lengthFront) exchange(raw string) int {
	f.t.Helper()
	head, body, ok := strings.Cut(raw, "\r\n\r\n")
	if !ok {
		f.t.Fatalf("no head in %q", raw)
	}
	length := 0
	for line := range strings.SplitSeq(head, "\r\n") {
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Content-Length") {
			length, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	if f.conn == nil {
		conn, err := net.Dial("tcp", f.address)
		if err != nil {
			f.t.Fatal(err)
		}
		f.conn, f.in = conn, bufio.NewReader(conn)
		f.dialled++
	}
	_ = f.conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(f.conn, head+"\r\n\r\n"+body[:length]); err != nil {
		f.close()
		return 0
	}
	res, err := http.ReadResponse(f.in, nil)
	if err != nil {
		f.close()
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	if res.Close || res.ProtoMinor == 0 {
		f.close()
	}
	return res.StatusCode
}

func (f *lengthFront) close() {
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}

// greedyPod is an attacker's pod: it answers before it has read a body, and keeps all that comes.
type greedyPod struct {
	net.Listener
	mu  sync.Mutex
	got bytes.Buffer
}

func newGreedyPod(t *testing.T) *greedyPod {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &greedyPod{Listener: l}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			wg.Go(func() { p.serve(conn); conn.Close() })
		}
	})
	t.Cleanup(func() { l.Close() })
	return p
}

func (p *greedyPod) serve(conn net.Conn) {
	in := bufio.NewReader(io.TeeReader(conn, p))
	head, err := readHead(in)
	if err != nil {
		return
	}
	// The last on its connection: the next caller's own request must come on another.
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
	if strings.Contains(head, "POST /") {
		_, _ = io.Copy(io.Discard, in) // the body, whatever it is
	}
}

func (p *greedyPod) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got.Write(b)
}

func (p *greedyPod) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got.String()
}

// Behind a front that frames by length, an attacker's request has two ends, and what lies between
// them becomes the beginning of a request whose body is the next caller's request, token and all.
func TestAFrontThatFramesByLengthGivesAwayNobodysToken(t *testing.T) {
	const victimToken = "token-of-the-victim-51aa"
	attack := func(version, te, body string) string {
		return fmt.Sprintf("POST %sproxy/a HTTP/%s\r\nHost: x\r\nConnection: keep-alive\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n%s\r\n%s",
			demo, version, adminToken, len(body), te, body)
	}
	// The attacker's own, for which the next caller's request is to be the body.
	open := "POST " + demo + "proxy/b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + adminToken + "\r\nContent-Length: 999\r\n\r\n"
	refused := strings.Replace(open, demo, "/nowhere/", 1)
	for name, raw := range map[string]string{
		"the chunks end before the length": attack("1.1", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+open),
		"and the first request is refused": strings.Replace(attack("1.1", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+open), adminToken, "nobody", 1),
		"and its path is none":             strings.Replace(attack("1.1", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+open), demo, "/nowhere/", 1),
		"and its method is none":           strings.Replace(attack("1.1", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+open), "POST", "BREW", 1),
		"and it is a probe":                strings.Replace(attack("1.1", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+open), demo+"proxy/a", "/livez", 1),
		"and it expects 100":               attack("1.1", "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+open),
		"and it expects what nobody does":  attack("1.1", "Expect: tea\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+open),
		"and it is an upgrade":             attack("1.1", "Upgrade: websocket\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+open),
		"and the verb wants an upgrade":    strings.Replace(attack("1.1", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+open), "proxy/a", "podlog", 1),
		"the chunks end after the length":  attack("1.1", "Transfer-Encoding: chunked\r\n", "ffff\r\nsome"),
		"the coding is folded":             attack("1.1", "Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"+open),
		"the coding has a tab":             attack("1.1", "Transfer-Encoding:\tchunked\r\n", "0\r\n\r\n"+open),
		"what follows is refused":          attack("1.1", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+refused),
		// Here it is the data plane that frames by length, and what the pod gets is one body.
		"HTTP/1.0 with a coding that counts nothing": attack("1.0", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+open),
	} {
		t.Run(name, func(t *testing.T) {
			pod := newGreedyPod(t)
			w := newWorld(t, nil, func(s *setup) {
				s.backendAddress = pod.Addr().String()
				s.opts.Limits.StallTimeout = 500 * time.Millisecond
			})
			w.kcp.grant(victimToken, "*")
			front := &lengthFront{t: t, address: strings.TrimPrefix(w.url, "http://")}
			defer front.close()
			front.exchange(raw)
			victim := "GET " + demo + "proxy/victim HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + victimToken + "\r\n\r\n"
			if code := front.exchange(victim); code != http.StatusOK {
				t.Errorf("the next caller was answered %d", code)
			}
			if strings.Contains(pod.String(), victimToken) {
				t.Errorf("the attacker's pod got the next caller's token:\n%s", pod)
			}
			if strings.Contains(pod.String(), "POST /b ") && strings.Contains(raw, "HTTP/1.1\r\nHost: x\r\nConnection") {
				t.Errorf("what only the data plane takes for a request reached the pod:\n%s", pod)
			}
			if front.dialled != 2 {
				t.Errorf("the front made %d connections, want 2: the first one is to end", front.dialled)
			}
		})
	}
}

// The end of a connection is announced with the answer's header, not noticed afterwards: until then
// a front may have sent the next caller's request.
func TestADoubtfulConnectionEndsWithItsAnswersHeader(t *testing.T) {
	w := newWorld(t, recorder())
	for name, c := range map[string]struct {
		head  string
		close bool
	}{
		"a chunked body":               {"POST " + demo + "proxy HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", true},
		"a refused chunked body":       {"POST /nowhere HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", true},
		"chunks and 426":               {"POST " + demo + "podlog HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", true},
		"HTTP/1.0 that wants to stay":  {"GET " + demo + "proxy HTTP/1.0\r\nConnection: keep-alive\r\n", true},
		"HTTP/1.0 with a length":       {"POST " + demo + "proxy HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n", true},
		"a probe by HTTP/1.0":          {"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n", true},
		"a body with a length":         {"POST " + demo + "proxy HTTP/1.1\r\nContent-Length: 0\r\n", false},
		"no body":                      {"GET " + demo + "proxy HTTP/1.1\r\n", false},
		"a refusal without a body":     {"GET /nowhere HTTP/1.1\r\n", false},
		"an upgrade by HTTP/1.0":       {"GET " + demo + "proxy HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", true},
		"an answer without an own end": {"POST " + demo + "log HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.dial()
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			body := ""
			if strings.Contains(c.head, "chunked") {
				body = "0\r\n\r\n"
			}
			_, _ = io.WriteString(conn, c.head+"Host: x\r\nAuthorization: Bearer "+adminToken+"\r\n\r\n"+body)
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			if res.StatusCode == http.StatusSwitchingProtocols {
				t.Error("the connection was switched")
			}
			// http.ReadResponse takes an HTTP/1.0 answer without keep-alive for the last one.
			if res.Close != c.close {
				t.Errorf("%s announces the end of its connection: %t, want %t (%v)", res.Status, res.Close, c.close, res.Header)
			}
			if c.close {
				if _, err := in.ReadByte(); err == nil || isTimeout(err) {
					t.Errorf("the connection did not end: %v", err)
				}
			}
		})
	}
}

// What HTTP/2 and a stated length leave without doubt keeps its connection.
func TestConnectionsWithoutDoubtAreKept(t *testing.T) {
	w := newWorld(t, recorder())
	front := &lengthFront{t: t, address: strings.TrimPrefix(w.url, "http://")}
	defer front.close()
	for i := range 5 {
		raw := fmt.Sprintf("POST %sproxy/%d HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 5\r\n\r\nhello", demo, i, adminToken)
		if code := front.exchange(raw); code != http.StatusOK {
			t.Fatalf("got %d", code)
		}
	}
	if front.dialled != 1 {
		t.Errorf("five requests with a length took %d connections", front.dialled)
	}
}
