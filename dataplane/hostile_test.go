// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
)

// Response splitting: whatever a pod writes into a header, the caller reads no second header and no
// second answer.
func TestAPodCannotSplitAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		code   int
	}{
		"a bare CR in a value":       {"X-Bad: a\rSet-Cookie: evil=1", 502},
		"a NUL in a value":           {"X-Bad: a\x00b", 502},
		"a space before the colon":   {"Clear-Site-Data : \"*\"", 502},
		"a name with a control byte": {"Set-\x01Cookie: evil=1", 502},
		"a folded line":              {"X-Bad: a\r\n Set-Cookie: evil=1", 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, rawAnswer("HTTP/1.1 200 OK\r\n"+c.header+"\r\nContent-Length: 2\r\n\r\nok"))
			conn := w.dial()
			fmt.Fprintf(conn, "GET %sproxy HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", demo, adminToken)
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != c.code || res.Header.Get("Set-Cookie") != "" || res.Header.Get("Clear-Site-Data") != "" {
				t.Errorf("got %d with %v", res.StatusCode, res.Header)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Error(err)
			}
			if rest, _ := io.ReadAll(in); len(rest) > 0 {
				t.Errorf("behind the answer: %q", rest)
			}
		})
	}
}

// An app that speaks HTTPS, or sends more headers than pass, runs and has nothing in its log that says why it is not
// seen: the answer names it.
func TestWhatIsWrongWithAnAnswerIsNamed(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"an alert of TLS":           {"\x15\x03\x01\x00\x02\x02\x46", "the instance's process speaks HTTPS: let it serve plain HTTP at this port"},
		"a large header":            {"HTTP/1.1 200 OK\r\nSet-Cookie: " + strings.Repeat("x", 65<<10) + "\r\n\r\n", "has more than 65536 bytes or 256 lines"},
		"many headers":              {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 3000) + "\r\n", "has more than 65536 bytes or 256 lines"},
		"an end without any answer": {"", "look at its log. If its app speaks HTTPS, let it serve plain HTTP"},
		"no HTTP":                   {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "look at its log. If its app speaks HTTPS, let it serve plain HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, rawAnswer(c.answer))
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+demo+"proxy", nil)
			req.Header.Set("Authorization", "Bearer "+adminToken)
			res, err := w.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != http.StatusBadGateway || !strings.Contains(string(body), c.want) {
				t.Errorf("%d %s", res.StatusCode, body)
			}
		})
	}
}

// GO-2021-0245: httputil.ReverseProxy panicked in a way that took more with it than the request.
// An answer that breaks off breaks off for the caller too, and the server goes on.
func TestAnAnswerThatBreaksOffIsNotTakenForAWholeOne(t *testing.T) {
	for name, answer := range map[string]string{
		"of known length": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
		"in chunks":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, rawAnswer(answer))
			for range 3 {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+demo+"proxy", nil)
				req.Header.Set("Authorization", "Bearer "+adminToken)
				res, err := w.client.Do(req)
				if err != nil {
					continue // nothing of it came, which nobody takes for an answer
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err == nil {
					t.Errorf("the caller took %q for the whole answer", body)
				}
			}
		})
	}
}

// An early answer reaches the caller although the body has not been sent, and the handler waits for
// nobody: goleak would see the goroutine that still reads the body.
func TestAnEarlyAnswerReachesTheCaller(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, "not you", http.StatusForbidden)
	}))
	conn := w.dial()
	fmt.Fprintf(conn, "POST %sproxy HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\nonly this", demo, adminToken)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("got %d", res.StatusCode)
	}
}

// Memory is bounded by buffers and not by the answer: the pod is made to wait for its reader.
func TestAReaderThatStopsHoldsOnlyBuffers(t *testing.T) {
	const size = 1 << 30
	var sent atomic.Int64
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 1<<20)
		for range size / len(block) {
			n, err := w.Write(block)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	conn := w.dial()
	fmt.Fprintf(conn, "GET %sproxy HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", demo, adminToken)
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	last := int64(-1)
	eventually(t, "the pod waits for the reader", func() bool {
		now := sent.Load()
		stands := now == last
		last = now
		return stands && now > 0
	})
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if last > 64<<20 || m.HeapAlloc > 128<<20 {
		t.Errorf("the pod has sent %d MiB of a GiB and the heap has %d MiB", last>>20, m.HeapAlloc>>20)
	}
}

func TestARefusalIsRememberedForAWhile(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := newWorld(t, nil, func(s *setup) { s.backendAddress = l.Addr().String() })
	w.addDeadPod()
	ways := w.server.handler.ways
	eventually(t, "the dead endpoint was tried", func() bool {
		if err := ways.Reach(t.Context(), fixture.ToPreview); err != nil {
			t.Fatal(err)
		}
		return ways.RefusedForTest() == 1
	})
	for range 20 {
		order := ways.AddressesForTest(fixture.ToPreview)
		if len(order) != 2 || strings.HasPrefix(order[0], "127.0.0.9:") {
			t.Fatalf("the order is %v, the refused one must come last", order)
		}
	}
}

// A pod that accepts connections and then fails, or hangs, is tried after the others too.
func TestAPodThatFailsAtTheChallengeComesLast(t *testing.T) {
	ends := listen(t, func(net.Conn) {})
	w := newWorld(t, nil, withProofs, knowingItsPod, func(s *setup) { s.backendAddress = ends })
	if res, _ := w.do("POST", demo+"sync", adminToken, strings.NewReader("x")); res.StatusCode != http.StatusBadGateway {
		t.Fatalf("got %d", res.StatusCode)
	}
	if n := w.server.handler.ways.RefusedForTest(); n != 1 {
		t.Errorf("%d endpoints are remembered", n)
	}
}

func TestThroughTheAPIServerADeadPodIsTriedOnce(t *testing.T) {
	dead := 0
	w := newWorld(t, nil, func(s *setup) {
		s.opts.Transport, s.backendAddress = upstream.APIServer, "127.0.0.1:9"
		s.apiServer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/pods/dead:") {
				dead++
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable"}`)
			}
		})
	})
	w.addDeadPod()
	for range 30 {
		w.do("GET", demo+"proxy/x", adminToken, nil)
	}
	if dead != 1 {
		t.Errorf("%d of 30 requests in a second went to it", dead)
	}
}

// 1,000 aborts leave no goroutine: TestMain looks.
func TestManyAborts(t *testing.T) {
	w := newWorld(t, switcher("", func(conn net.Conn, in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) }))
	for i := range 1000 {
		conn := w.dial()
		switched(t, conn, demo+"proxy", "")
		if i%2 == 0 {
			_ = conn.SetLinger(0)
		}
		conn.Close()
	}
	eventually(t, "no stream is left", func() bool {
		return w.server.handler.limits.UnderWay() == 0
	})
}

// net/http ends the request's context as soon as the deadline of a body passes, and the transport
// stops the body for that before its read has returned. Such a caller was taken for gone.
func TestACallerWhoStallsIsNotTakenForGone(t *testing.T) {
	for name, c := range map[string]struct {
		takes   time.Duration
		stalled bool
	}{
		"the deadline passes and the body is stopped for it": {time.Minute, true},
		"the body is stopped while the caller has time left": {time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := request(t, http.MethodPost, "/", "")
				body := &stoppedBody{takes: c.takes}
				r.Body = body
				x := newExchange(discard{}, r, time.Minute)
				body.exchange = x
				if _, err := x.request.Body.Read(make([]byte, 1)); err == nil {
					t.Error("a body that was stopped can be read")
				}
				if got := x.Stalled.Load(); got != c.stalled {
					t.Errorf("stalled is %t", got)
				}
			})
		})
	}
}

// stoppedBody is stopped while it is read.
type stoppedBody struct {
	takes    time.Duration
	exchange *exchange
}

func (b *stoppedBody) Read([]byte) (int, error) {
	time.Sleep(b.takes)
	b.exchange.StopBody()
	return 0, os.ErrDeadlineExceeded
}

func (*stoppedBody) Close() error { return nil }
