// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAConnectionIsKeptOnlyAfterAWholeAnswerWithoutDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		method string
		kept   bool
	}{
		"a length":                       {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", kept: true},
		"chunks":                         {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", kept: true},
		"no body":                        {answer: "HTTP/1.1 204 No Content\r\n\r\n", kept: true},
		"not modified":                   {answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", kept: true},
		"a HEAD":                         {answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", method: "HEAD", kept: true},
		"an informational answer before": {answer: "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", kept: true},

		"a length and chunks":            {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		"chunks and a length":            {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		"HTTP/1.0":                       {answer: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"},
		"a wish to close":                {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"},
		"a byte beyond the length":       {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!"},
		"an answer that nobody asked":    {answer: "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"},
		"a body where there can be none": {answer: "HTTP/1.1 304 Not Modified\r\n\r\nevil"},
		"a body after a HEAD":            {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", method: "HEAD"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, answers(c.answer))
			tr := newTransport(t, p)
			for range 2 {
				if _, _, err := ask(t, tr, request(t, or2(c.method, "GET"), nil)); err != nil {
					t.Fatal(err)
				}
			}
			if want := map[bool]int{true: 1, false: 2}[c.kept]; p.dialled() != want {
				t.Errorf("two requests made %d connections, want %d", p.dialled(), want)
			}
		})
	}
}

func or2(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func TestABodyThatIsNotReadEndsItsConnection(t *testing.T) {
	p := newPod(t, answers("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	tr := newTransport(t, p)
	res, err := tr.RoundTrip(request(t, "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if _, err := res.Body.Read(make([]byte, 1)); err == nil {
		t.Error("a body can be read after Close")
	}
	if _, _, err := ask(t, tr, request(t, "GET", nil)); err != nil || p.dialled() != 2 {
		t.Errorf("%v; %d connections, want 2", err, p.dialled())
	}
}

// An answer that is sent on an idle connection waits there for the next request.
func TestBytesOnAnIdleConnectionAnswerNoRequest(t *testing.T) {
	poison := make(chan struct{})
	p := newPod(t, func(n int, c *net.TCPConn, in *bufio.Reader) {
		if n > 0 {
			answers("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")(n, c, in)
			return
		}
		_, _ = http.ReadRequest(in)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		<-poison
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		poison <- struct{}{}
		_, _ = io.Copy(io.Discard, in)
	})
	tr := newTransport(t, p)
	if _, body, err := ask(t, tr, request(t, "GET", nil)); err != nil || body != "ok" {
		t.Fatalf("%q, %v", body, err)
	}
	poison <- struct{}{}
	<-poison
	// The bytes are on their way through loopback; once they are there the connection is not quiet.
	eventually(t, "the bytes have arrived", func() bool {
		tr.pool.mu.Lock()
		defer tr.pool.mu.Unlock()
		return !tr.pool.idle["target"][0].quiet()
	})
	if _, body, err := ask(t, tr, request(t, "GET", nil)); err != nil || body != "ok" {
		t.Errorf("got %q, %v", body, err)
	}
}

// A pod that ends a kept connection between requests fails no request, not even one that must not
// be sent twice: the end is seen before anything is sent.
func TestAKeptConnectionThatHasEndedIsNotUsed(t *testing.T) {
	p := newPod(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	})
	tr := newTransport(t, p)
	for i := range 5 {
		if _, body, err := ask(t, tr, request(t, "POST", strings.NewReader("x"))); err != nil || body != "ok" {
			t.Fatalf("request %d: %q, %v", i, body, err)
		}
		eventually(t, "the end has arrived", func() bool {
			tr.pool.mu.Lock()
			defer tr.pool.mu.Unlock()
			kept := tr.pool.idle["target"]
			return len(kept) == 0 || !kept[0].quiet()
		})
	}
}

func TestAnEndpointThatServesNoMoreLosesItsConnections(t *testing.T) {
	p := newPod(t, answers("HTTP/1.1 204 No Content\r\n\r\n"))
	u := &moved{pod: p, serves: true}
	tr := newTransport(t, u)
	for range 2 {
		if _, _, err := ask(t, tr, request(t, "GET", nil)); err != nil {
			t.Fatal(err)
		}
	}
	u.serves = false
	if _, _, err := ask(t, tr, request(t, "GET", nil)); err != nil {
		t.Fatal(err)
	}
	if p.dialled() != 2 {
		t.Errorf("%d connections, want one before the move and one after", p.dialled())
	}
}

type moved struct {
	*pod
	plain
	serves bool
}

func (m *moved) Dial(ctx context.Context, host string) (net.Conn, Peer, error) {
	c, _, err := m.pod.Dial(ctx, host)
	return c, m, err
}

func (m *moved) Serves() bool { return m.serves }

// named adds a line that has the number of its connection and of the request on it.
type named struct {
	*pod
	plain
	conn, requests int
}

func (n *named) Dial(ctx context.Context, host string) (net.Conn, Peer, error) {
	n.conn++
	c, _, err := n.pod.Dial(ctx, host)
	return c, &named{conn: n.conn}, err
}

func (n *named) AppendHeader(head []byte, req *http.Request) []byte {
	n.requests++
	return fmt.Appendf(head, "X-Connection: %d %d %s\r\n", n.conn, n.requests, req.Method)
}

// The header that identifies the caller to a pod depends on the connection, and a request that is sent again goes over
// another one.
func TestAPeerAddsToTheHeaderOfEachRequestOnItsConnection(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	p := newPod(t, func(n int, c *net.TCPConn, in *bufio.Reader) {
		for i := 0; ; i++ {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			mu.Lock()
			seen = append(seen, strings.Join(req.Header["X-Connection"], ","))
			mu.Unlock()
			if n == 0 && i == 1 {
				return // without an answer: it is sent again
			}
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	tr := newTransport(t, &named{pod: p})
	for range 3 {
		if _, _, err := ask(t, tr, request(t, "GET", nil)); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"1 1 GET", "1 2 GET", "2 1 GET", "2 2 GET"}; !slices.Equal(seen, want) {
		t.Errorf("the pod was told %q, want %q", seen, want)
	}
}

func TestAConnectionServesOneHost(t *testing.T) {
	p := newPod(t, answers("HTTP/1.1 204 No Content\r\n\r\n"))
	tr := newTransport(t, p)
	for _, host := range []string{"a", "b", "a", "b"} {
		req := request(t, "GET", nil)
		req.URL.Host = host
		if _, _, err := ask(t, tr, req); err != nil {
			t.Fatal(err)
		}
	}
	if p.dialled() != 2 {
		t.Errorf("two hosts have %d connections", p.dialled())
	}
}

// piped dials pipes, which have no sockets and fit into a bubble of synctest.
type piped struct{ answer string }

func (p piped) Dial(context.Context, string) (net.Conn, Peer, error) {
	near, far := net.Pipe()
	go func() {
		in := bufio.NewReader(far)
		for {
			if _, err := http.ReadRequest(in); err != nil {
				far.Close()
				return
			}
			_, _ = io.WriteString(far, p.answer)
		}
	}()
	return near, plain{}, nil
}

func TestIdleConnectionsAreBoundedInTimeAndNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &Transport{Upstream: piped{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}, MaxIdlePerHost: 2, MaxIdle: 3, IdleTimeout: time.Minute}
		busy := func(host string, n int) {
			var all []*http.Response
			for range n {
				req := request(t, "GET", nil)
				req.URL.Host = host
				res, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, res)
			}
			for _, res := range all {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}
		kept := func(want string) {
			t.Helper()
			tr.pool.mu.Lock() // the sweep runs on a timer
			defer tr.pool.mu.Unlock()
			p := &tr.pool
			if got := fmt.Sprintf("%d of a, %d in all, of %d hosts, sweep %t", len(p.idle["a"]), p.count, len(p.idle), p.sweep != nil); got != want {
				t.Errorf("kept are %s; want %s", got, want)
			}
		}
		busy("a", 5)
		kept("2 of a, 2 in all, of 1 hosts, sweep true")
		busy("b", 5)
		kept("2 of a, 3 in all, of 2 hosts, sweep true")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		kept("0 of a, 0 in all, of 0 hosts, sweep false")
	})
}
