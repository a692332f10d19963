// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a proxy in front of a Service asks for in addition.

// trailed is a body whose trailer is there once it has been read.
type trailed struct {
	io.Reader
	req *http.Request
}

func (b *trailed) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		b.req.Trailer["X-Sum"] = []string{"7"}
	}
	return n, err
}

func TestTheTrailerOfARequestFollowsItsBody(t *testing.T) {
	for name, c := range map[string]struct {
		trailer http.Header
		want    string
		err     error
	}{
		"one":                     {http.Header{"X-Sum": nil}, "7", nil},
		"one that frames":         {http.Header{"X-Sum": nil, "Content-Length": {"9"}}, "", ErrRequest},
		"one that ends its line":  {http.Header{"X-Sum": nil, "X-B": {"a\r\nC: d"}}, "", ErrRequest},
		"none with its own value": {nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 1)
			p := newPod(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
				got <- req.Trailer.Get("X-Sum")
				_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			})
			req := request(t, "POST", io.MultiReader(strings.NewReader("bo"), strings.NewReader("dy")))
			req.Trailer = c.trailer
			if c.trailer != nil {
				req.Body = io.NopCloser(&trailed{req.Body, req})
			}
			_, _, err := ask(t, newTransport(t, p), req)
			if (err == nil) != (c.err == nil) {
				t.Fatalf("ended with %v, want %v", err, c.err)
			}
			if c.err == nil {
				if sum := <-got; sum != c.want {
					t.Errorf("the trailer was %q, want %q", sum, c.want)
				}
			}
		})
	}
}

func TestInformationalAnswersAreTold(t *testing.T) {
	p := newPod(t, answers("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"))
	tr := newTransport(t, p)
	var told []string
	tr.Informational = func(req *http.Request, code int, header http.Header) {
		told = append(told, fmt.Sprint(req.Method, code, header.Get("Link")))
	}
	if code, _, err := ask(t, tr, request(t, "GET", nil)); code != 204 || err != nil {
		t.Fatalf("answered %d, %v", code, err)
	}
	if want := "[GET102 GET103a]"; fmt.Sprint(told) != want {
		t.Errorf("told were %v, want %s", told, want)
	}
}

func TestANewConnectionThatEndsIsAnAnswer(t *testing.T) {
	p := newPod(t, func(n int, c *net.TCPConn, in *bufio.Reader) {
		if n == 0 {
			_, _ = http.ReadRequest(in)
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
		_, _ = http.ReadRequest(in)
	})
	tr := newTransport(t, p)
	tr.RepeatKeptOnly = true
	if _, _, err := ask(t, tr, request(t, "GET", nil)); err != nil {
		t.Fatal(err)
	}
	// The kept connection ends, so that the request is sent again; the new one ends as well.
	if _, _, err := ask(t, tr, request(t, "GET", nil)); !errors.Is(err, ErrClosed) || p.dialled() != 2 {
		t.Errorf("ended with %v after %d connections", err, p.dialled())
	}
	if _, _, err := ask(t, tr, request(t, "GET", nil)); !errors.Is(err, ErrClosed) || p.dialled() != 3 {
		t.Errorf("ended with %v after %d connections", err, p.dialled())
	}
}

func TestWhichRequestsTakeAKeptConnection(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		idle   time.Duration
		kept   bool
	}{
		"one that may be repeated, after long":     {"GET", 40 * time.Second, true},
		"one that must not, at once":               {"POST", time.Millisecond, true},
		"one that must not, after a while":         {"POST", 2 * time.Second, false},
		"one that may, when the connection is old": {"GET", 50 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialled := &counting{piped: piped{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}}
				tr := &Transport{Upstream: dialled, IdleTimeout: time.Minute, FreshFor: time.Second, MaxAge: 45 * time.Second}
				defer tr.CloseIdleConnections()
				for _, method := range []string{"GET", c.method} {
					if _, _, err := ask(t, tr, request(t, method, nil)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(c.idle)
				}
				if kept := dialled.n == 1; kept != c.kept {
					t.Errorf("two requests made %d connections", dialled.n)
				}
				if c.idle == 50*time.Second { // it was older than MaxAge after the second
					if _, _, err := ask(t, tr, request(t, "GET", nil)); err != nil || dialled.n != 2 {
						t.Errorf("the third made %d connections, %v", dialled.n, err)
					}
				}
			})
		})
	}
}

// counting counts connections.
type counting struct {
	piped
	n int
}

func (c *counting) Dial(ctx context.Context, host string) (net.Conn, Peer, error) {
	c.n++
	return c.piped.Dial(ctx, host)
}
