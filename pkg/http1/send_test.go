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
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A request is sent again only when that can do no harm.
func TestWhatIsSentTwice(t *testing.T) {
	const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for name, c := range map[string]struct {
		method, body, first string
		conns               int
		err                 error
	}{
		"a GET that got nothing":         {method: "GET", conns: 2},
		"a HEAD that got nothing":        {method: "HEAD", conns: 2},
		"a GET with a body is not":       {method: "GET", body: "x", conns: 1, err: ErrClosed},
		"a POST is not":                  {method: "POST", conns: 1, err: ErrClosed},
		"a POST with a body is not":      {method: "POST", body: "x", conns: 1, err: ErrClosed},
		"a PATCH is not":                 {method: "PATCH", conns: 1, err: ErrClosed},
		"a DELETE is not":                {method: "DELETE", conns: 1, err: ErrClosed},
		"what got a byte is not":         {method: "GET", first: "H", conns: 1, err: ErrMalformed},
		"what got half a header is not":  {method: "GET", first: "HTTP/1.1 200 OK\r\nConte", conns: 1, err: ErrMalformed},
		"what got an early hint is not":  {method: "GET", first: "HTTP/1.1 103 Early Hints\r\n\r\n", conns: 1, err: io.EOF},
		"what got no HTTP at all is not": {method: "GET", first: "SSH-2.0\r\n\r\n", conns: 1, err: ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, func(n int, conn *net.TCPConn, in *bufio.Reader) {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				answer := c.first
				if n > 0 {
					answer = whole
				}
				_, _ = io.WriteString(conn, answer)
			})
			tr := newTransport(t, p)
			var body io.Reader
			if c.body != "" {
				body = strings.NewReader(c.body)
			}
			_, _, err := ask(t, tr, request(t, c.method, body))
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || p.dialled() != c.conns {
				t.Errorf("got %v after %d connections, want %v after %d", err, p.dialled(), c.err, c.conns)
			}
		})
	}
	t.Run("and never three times", func(t *testing.T) {
		p := newPod(t, func(_ int, _ *net.TCPConn, in *bufio.Reader) { _, _ = http.ReadRequest(in) })
		if _, _, err := ask(t, newTransport(t, p), request(t, "GET", nil)); !errors.Is(err, ErrClosed) || p.dialled() != 2 {
			t.Errorf("got %v after %d connections", err, p.dialled())
		}
	})
}

// got is what a pod received.
type got struct {
	Line   string
	Header http.Header
	Body   string
	Length int64
	Coding []string
}

func TestWhatIsSent(t *testing.T) {
	requests := make(chan got, 1)
	p := newPod(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(req.Body)
			requests <- got{req.Method + " " + req.RequestURI + " " + req.Host, req.Header, string(body), req.ContentLength, req.TransferEncoding}
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	tr := newTransport(t, p)
	for name, c := range map[string]struct {
		method string
		body   io.Reader
		header http.Header
		want   got
	}{
		"a GET adds nothing of its own": {method: "GET", want: got{Line: "GET /path?q=1 host", Header: http.Header{}}},
		"an empty POST says so":         {method: "POST", want: got{Line: "POST /path?q=1 host", Header: http.Header{"Content-Length": {"0"}}}},
		"a known length is stated":      {method: "POST", body: strings.NewReader("body"), want: got{Line: "POST /path?q=1 host", Header: http.Header{"Content-Length": {"4"}}, Body: "body", Length: 4}},
		"an unknown length is chunked":  {method: "PUT", body: io.MultiReader(strings.NewReader("bo"), strings.NewReader("dy")), want: got{Line: "PUT /path?q=1 host", Header: http.Header{}, Body: "body", Length: -1, Coding: []string{"chunked"}}},
		"framing of the header is not passed on": {
			method: "POST", body: strings.NewReader("body"),
			header: http.Header{"Content-Length": {"400"}, "Transfer-Encoding": {"chunked"}, "Host": {"evil"}, "Trailer": {"X"}, "X-Kept": {"a", "b"}},
			want:   got{Line: "POST /path?q=1 host", Header: http.Header{"Content-Length": {"4"}, "X-Kept": {"a", "b"}}, Body: "body", Length: 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, c.method, c.body)
			req.Host = "host"
			if c.header != nil {
				req.Header = c.header
			}
			if _, _, err := ask(t, tr, req); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, <-requests); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// net/url would write some of these another way, and take others for a host.
func TestATargetIsSentAsItIs(t *testing.T) {
	targets := make(chan string, 1)
	p := newPod(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			for header := line; header != "\r\n" && err == nil; {
				header, err = in.ReadString('\n')
			}
			targets <- strings.TrimSuffix(strings.TrimPrefix(line, "GET "), " HTTP/1.1\r\n")
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	tr := newTransport(t, p)
	for name, c := range map[string]struct {
		url  url.URL
		want string
	}{
		"an encoding that net/url does not use": {url.URL{Opaque: "/a%2Fb|c", Path: "/a/b|c"}, "/a%2Fb|c"},
		"two slashes at the beginning":          {url.URL{Opaque: "//a.example/b", Path: "//a.example/b"}, "//a.example/b"},
		"a query with a broken escape":          {url.URL{Opaque: "/a", RawQuery: "q=100%"}, "/a?q=100%"},
		"an empty query":                        {url.URL{Opaque: "/a", ForceQuery: true}, "/a?"},
		"a path alone, as net/url writes it":    {url.URL{Path: "/a b", RawQuery: "q"}, "/a%20b?q"},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, "GET", nil)
			c.url.Scheme, c.url.Host = req.URL.Scheme, req.URL.Host
			req.URL = &c.url
			if _, _, err := ask(t, tr, req); err != nil {
				t.Fatal(err)
			}
			if got := <-targets; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Request splitting: no value can end its line.
func TestARequestThatWouldBeTwoIsNotSent(t *testing.T) {
	p := newPod(t, answers("HTTP/1.1 204 No Content\r\n\r\n"))
	for name, change := range map[string]func(*http.Request){
		"CRLF in a value":     func(r *http.Request) { r.Header["X"] = []string{"a\r\nX-Sandbox-Control-Token: b"} },
		"LF in a value":       func(r *http.Request) { r.Header["X"] = []string{"a\nb: c"} },
		"NUL in a value":      func(r *http.Request) { r.Header["X"] = []string{"a\x00"} },
		"CRLF in a name":      func(r *http.Request) { r.Header["X\r\nY"] = []string{"a"} },
		"a colon in a name":   func(r *http.Request) { r.Header["X: y"] = []string{"a"} },
		"a space in a method": func(r *http.Request) { r.Method = "GET /x HTTP/1.1\r\nX:" },
		"CRLF in the host":    func(r *http.Request) { r.Host = "a\r\nX: y" },
		"a space in the path": func(r *http.Request) { r.URL.Opaque = "/a HTTP/1.1\r\n\r\nGET /b" },
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, "GET", nil)
			change(req)
			if _, _, err := ask(t, newTransport(t, p), req); !errors.Is(err, ErrRequest) {
				t.Errorf("got %v, want %v", err, ErrRequest)
			}
		})
	}
}

// A body that breaks off must not look whole to the pod, and the error must say whose fault it is.
func TestABodyThatCannotBeReadEndsTheExchange(t *testing.T) {
	failure := errors.New("the caller has gone")
	for name, body := range map[string]io.Reader{
		"of known length":   io.LimitReader(broken{"abc", failure}, 10),
		"of unknown length": broken{"abc", failure},
	} {
		t.Run(name, func(t *testing.T) {
			received := make(chan error, 1)
			p := newPod(t, func(_ int, _ *net.TCPConn, in *bufio.Reader) {
				req, err := http.ReadRequest(in)
				if err == nil {
					_, err = io.ReadAll(req.Body)
				}
				received <- err
			})
			req := request(t, "POST", body)
			if strings.Contains(name, "known length") && !strings.Contains(name, "unknown") {
				req.ContentLength = 10
			}
			if _, _, err := ask(t, newTransport(t, p), req); !errors.Is(err, failure) {
				t.Errorf("got %v, want %v", err, failure)
			}
			if err := <-received; err == nil {
				t.Error("the pod took half a body for a whole one")
			}
		})
	}
}

// broken gives some bytes and then an error.
type broken struct {
	text string
	err  error
}

func (b broken) Read(p []byte) (int, error) { return copy(p, b.text), b.err }

// stoppable is a body whose source says nothing until it is stopped.
type stoppable struct {
	io.Closer
	stopped chan struct{}
}

func (s stoppable) Read([]byte) (int, error) { <-s.stopped; return 0, io.ErrUnexpectedEOF }
func (s stoppable) Stop()                    { close(s.stopped) }

func TestAnAnswerThatComesEarly(t *testing.T) {
	const refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
	p := newPod(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		_, _ = http.ReadRequest(in) // its header; the body is not read
		_, _ = io.WriteString(c, refusal)
		_, _ = io.Copy(io.Discard, in)
	})
	tr := newTransport(t, p)
	t.Run("arrives while the body still waits, and its connection is not used again", func(t *testing.T) {
		req := request(t, "POST", nil)
		req.Body, req.ContentLength = stoppable{stopped: make(chan struct{})}, 100
		code, body, err := ask(t, tr, req) // ask closes, which stops the body
		if err != nil || code != 403 || body != "no" {
			t.Errorf("got %d %q, %v", code, body, err)
		}
		if tr.pool.count != 0 {
			t.Error("the connection was kept: the rest of the body would be the next request")
		}
	})
	t.Run("is read even if the pod then reads no more of a large body", func(t *testing.T) {
		p := newPod(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
			_, _ = http.ReadRequest(in)
			_, _ = io.WriteString(c, refusal)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, in)
		})
		req := request(t, "POST", io.LimitReader(zeros{}, 8<<20))
		req.ContentLength = 8 << 20
		if code, body, err := ask(t, newTransport(t, p), req); err != nil || code != 403 || body != "no" {
			t.Errorf("got %d %q, %v", code, body, err)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBothWaysAtOnce(t *testing.T) {
	p := newPod(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(c, req.Body)
	})
	tr := newTransport(t, p)
	from, to := io.Pipe()
	res, err := tr.RoundTrip(request(t, "POST", from))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for i := range 3 {
		line := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(to, line); err != nil {
			t.Fatal(err)
		}
		if echoed, err := in.ReadString('\n'); err != nil || echoed != line {
			t.Fatalf("got %q, %v", echoed, err)
		}
	}
	to.Close()
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("got %q, %v", rest, err)
	}
}

func TestExpectContinue(t *testing.T) {
	// scripted is a server at the other end of a pipe: it reads the header, says something,
	// and reports what then comes of the body.
	scripted := func(say string, body chan<- string) Upstream {
		return dialer(func() net.Conn {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				in := bufio.NewReader(far)
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.WriteString(far, say)
				data, _ := io.ReadAll(req.Body)
				body <- string(data)
				_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}()
			return near
		})
	}
	for name, c := range map[string]struct {
		say, body string
		code      int
		wait      time.Duration
	}{
		"the body follows the word":                   {say: "HTTP/1.1 100 Continue\r\n\r\n", body: "body", code: 200},
		"a second word does no harm":                  {say: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", body: "body", code: 200},
		"a server that says nothing gets it after 1s": {body: "body", code: 200, wait: time.Second},
		"a refusal spares the body":                   {say: "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n", code: 417},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := make(chan string, 1)
				tr := &Transport{Upstream: scripted(c.say, body)}
				defer tr.CloseIdleConnections()
				req := request(t, "POST", strings.NewReader("body"))
				req.Header.Set("Expect", "100-continue")
				start := time.Now()
				code, _, err := ask(t, tr, req)
				if err != nil || code != c.code || time.Since(start) != c.wait {
					t.Errorf("got %d, %v after %v; want %d after %v", code, err, time.Since(start), c.code, c.wait)
				}
				if got := <-body; got != c.body {
					t.Errorf("the server got body %q, want %q", got, c.body)
				}
			})
		})
	}
}

type dialer func() net.Conn

func (d dialer) Dial(context.Context, string) (net.Conn, Peer, error) { return d(), plain{}, nil }
