// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pod is a server that does as a test says with each connection.
type pod struct {
	net.Listener
	t     *testing.T
	serve func(n int, c *net.TCPConn, in *bufio.Reader)
	wg    sync.WaitGroup

	mu    sync.Mutex
	conns []*net.TCPConn
}

// newPod serves each connection; n is how many came before.
func newPod(t *testing.T, serve func(n int, c *net.TCPConn, in *bufio.Reader)) *pod {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pod{Listener: l, t: t, serve: serve}
	p.wg.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

func (p *pod) accept() {
	for {
		c, err := p.Accept()
		if err != nil {
			return
		}
		conn := c.(*net.TCPConn)
		p.mu.Lock()
		n := len(p.conns)
		p.conns = append(p.conns, conn)
		p.mu.Unlock()
		p.wg.Go(func() { defer conn.Close(); p.serve(n, conn, bufio.NewReader(conn)) })
	}
}

func (p *pod) stop() {
	p.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *pod) dialled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Dial makes a pod an Upstream.
func (p *pod) Dial(ctx context.Context, _ string) (net.Conn, Peer, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", p.Addr().String())
	return c, plain{}, err
}

// plain is a Peer that serves for ever and says nothing of its own.
type plain struct{}

func (plain) Serves() bool                                     { return true }
func (plain) AppendHeader(head []byte, _ *http.Request) []byte { return head }

func newTransport(t *testing.T, u Upstream) *Transport {
	t.Helper()
	tr := &Transport{Upstream: u}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// answers reads requests, bodies included, and answers each with the same bytes.
func answers(answer string) func(int, *net.TCPConn, *bufio.Reader) {
	return func(_ int, c *net.TCPConn, in *bufio.Reader) {
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

func request(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, "http://target/path?q=1", body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// ask sends a request and reads its answer whole.
func ask(t *testing.T, tr *Transport, req *http.Request) (int, string, error) {
	t.Helper()
	res, err := tr.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// eventually polls a real server.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("timed out before %s", what)
}
