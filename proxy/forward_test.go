// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// What goes on is what came, byte by byte, but for the headers of the connection and X-Forwarded-For.
func TestARequestGoesOnAsItCame(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for name, c := range map[string]struct{ request, line, has, hasNot string }{
		"a path that looks as if it were to be cleaned": {request: "GET //a/../b/./c%2Fd%2e%2E/?x=1&&y=%zz;z HTTP/1.1\r\n", line: "GET //a/../b/./c%2Fd%2e%2E/?x=1&&y=%zz;z HTTP/1.1"},
		"a query that is empty":                         {request: "GET /a? HTTP/1.1\r\n", line: "GET /a? HTTP/1.1"},
		"all of the server":                             {request: "OPTIONS * HTTP/1.1\r\n", line: "OPTIONS * HTTP/1.1"},
		"the absolute form":                             {request: "GET http://shop/a%2Fb?c HTTP/1.1\r\n", line: "GET /a%2Fb?c HTTP/1.1", has: "Host: shop\r\n"},
		"a method of its own":                           {request: "PURGE /a HTTP/1.1\r\n", line: "PURGE /a HTTP/1.1"},
		"the host":                                      {request: "GET / HTTP/1.1\r\n", line: "GET / HTTP/1.1", has: "Host: shop.test:81\r\n"},
		"baggage in two lines":                          {request: "GET / HTTP/1.1\r\nbaggage: a=b;p=1 , c=d\r\nbaggage: e=%20\r\n", line: "GET / HTTP/1.1", has: "Baggage: a=b;p=1 , c=d\r\nBaggage: e=%20\r\n"},
		"a trace":                                       {request: "GET / HTTP/1.1\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n", line: "GET / HTTP/1.1", has: "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"},
		"no agent is added":                             {request: "GET / HTTP/1.1\r\n", line: "GET / HTTP/1.1", hasNot: "User-Agent"},
		"no coding is added":                            {request: "GET / HTTP/1.1\r\n", line: "GET / HTTP/1.1", hasNot: "Accept-Encoding"},
		"the client's address":                          {request: "GET / HTTP/1.1\r\n", line: "GET / HTTP/1.1", has: "X-Forwarded-For: 127.0.0.1\r\n"},
		"the addresses before it":                       {request: "GET / HTTP/1.1\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\n", line: "GET / HTTP/1.1", has: "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 127.0.0.1\r\n"},
		"headers of the connection stay here":           {request: "GET / HTTP/1.1\r\nConnection: x-own, keep-alive\r\nX-Own: 1\r\nKeep-Alive: 5\r\nTE: gzip\r\n", line: "GET / HTTP/1.1", hasNot: "X-Own"},
		"a connection's header cannot take the address": {request: "GET / HTTP/1.1\r\nConnection: X-Forwarded-For\r\n", line: "GET / HTTP/1.1", has: "X-Forwarded-For: 127.0.0.1\r\n"},
		"trailers are read":                             {request: "GET / HTTP/1.1\r\nTE: trailers\r\nConnection: TE\r\n", line: "GET / HTTP/1.1", has: "Te: trailers\r\n"},
		"a body of a length":                            {request: "POST / HTTP/1.1\r\nContent-Length: 0\r\n", line: "POST / HTTP/1.1", has: "Content-Length: 0\r\n"},
		"a cookie":                                      {request: "GET / HTTP/1.1\r\nCookie: a=b; c=d\r\nAuthorization: Bearer x\r\n", line: "GET / HTTP/1.1", has: "Cookie: a=b; c=d\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			backend := newRawBackend(t, ok)
			w := newWorld(t, intercept.HTTP, backend.address, "")
			host := "Host: shop.test:81\r\n"
			if answer := w.say(c.request + host + "\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 200") {
				t.Fatalf("answered %q", answer)
			}
			head := backend.last(t)
			if line, _, _ := strings.Cut(head, "\r\n"); line != c.line {
				t.Errorf("the line is %q, want %q", line, c.line)
			}
			if !strings.Contains(head, c.has) || c.hasNot != "" && strings.Contains(head, c.hasNot) {
				t.Errorf("the head is %q, has to have %q and not %q", head, c.has, c.hasNot)
			}
		})
	}
}

func TestAnHTTP2RequestGoesOnAsItCame(t *testing.T) {
	seen := make(chan *http.Request, 1)
	w := newWorld(t, intercept.HTTP, newBackend(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r })), "")
	for _, path := range []string{"/a%2Fb/../c?x=1&&y=%zz", "//a//b", "/a?", "/%7e~"} {
		req := w.request("GET", "/", nil, "a=b", "c=d")
		req.URL.Path, req.URL.RawPath = "", ""
		req.URL.Opaque = path
		if strings.HasPrefix(path, "//") {
			req.URL.Opaque, req.URL.Path = "", path
		}
		req.Host = "shop.test:81"
		w.ask(w.client(true), req)
		got := <-seen
		if got.RequestURI != path || got.Host != "shop.test:81" || got.ProtoMajor != 2 || !slices.Equal(got.Header["Baggage"], []string{"a=b", "c=d"}) {
			t.Errorf("%s: the backend got %s of %s over %s with %v", path, got.RequestURI, got.Host, got.Proto, got.Header)
		}
		if got.Header.Get("X-Forwarded-For") != "127.0.0.1" {
			t.Errorf("forwarded for %q", got.Header.Get("X-Forwarded-For"))
		}
	}
}

// What comes back is what the backend answered.
func TestAnAnswerComesBackAsItIs(t *testing.T) {
	for name, c := range map[string]struct{ request, answer, want string }{
		"a length": {
			"GET / HTTP/1.1", "HTTP/1.1 418 Teapot\r\nDate: x\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 2\r\n\r\nok",
			"HTTP/1.1 418 I'm a teapot\r\nContent-Length: 2\r\nDate: x\r\nX-A: 1\r\nX-A: 2\r\n\r\nok",
		},
		"no type is guessed": {
			"GET / HTTP/1.1", "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 6\r\n\r\n<html>",
			"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nDate: x\r\n\r\n<html>",
		},
		"chunks with a trailer": {
			"GET / HTTP/1.1", "HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n",
			"HTTP/1.1 200 OK\r\nDate: x\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n",
		},
		"a trailer that was not announced": {
			"GET / HTTP/1.1", "HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n",
			"HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n",
		},
		"HEAD": {
			"HEAD / HTTP/1.1", "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 1234\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nDate: x\r\n\r\n",
		},
		"not modified": {
			"GET / HTTP/1.1", "HTTP/1.1 304 Not Modified\r\nDate: x\r\nEtag: \"1\"\r\n\r\n",
			"HTTP/1.1 304 Not Modified\r\nDate: x\r\nEtag: \"1\"\r\n\r\n",
		},
		"early hints": {
			"GET / HTTP/1.1", "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 204 No Content\r\nDate: x\r\n\r\n",
			"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 204 No Content\r\nDate: x\r\n\r\n",
		},
		"a redirect": {
			"GET / HTTP/1.1", "HTTP/1.1 302 Found\r\nDate: x\r\nLocation: //elsewhere/%2e\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nDate: x\r\nLocation: //elsewhere/%2e\r\n\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, intercept.HTTP, newRawBackend(t, c.answer).address, "")
			for _, head := range []string{"\r\nHost: x\r\n\r\n", "\r\nHost: x\r\nTE: trailers\r\nConnection: TE\r\n\r\n"} { // plain, and served by net/http
				if diff := cmp.Diff(fieldsSorted(c.want), fieldsSorted(w.say(c.request+head))); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

// fieldsSorted sorts the fields of each header: their order means nothing, but for those of one name.
func fieldsSorted(answers string) string {
	blocks := strings.Split(answers, "\r\n\r\n")
	for i, block := range blocks {
		if line, fields, ok := strings.Cut(block, "\r\n"); ok && strings.HasPrefix(line, "HTTP/") {
			sorted := strings.Split(fields, "\r\n")
			slices.SortStableFunc(sorted, func(a, b string) int {
				a, _, _ = strings.Cut(a, ":")
				b, _, _ = strings.Cut(b, ":")
				return strings.Compare(a, b)
			})
			blocks[i] = line + "\r\n" + strings.Join(sorted, "\r\n")
		}
	}
	return strings.Join(blocks, "\r\n\r\n")
}

func TestHintsPassOverHTTP2(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusNoContent)
	})), "")
	var hinted string
	req := w.request("GET", "/", nil)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			hinted = fmt.Sprint(code, header.Get("Link"))
			return nil
		},
	}))
	if res, _ := w.ask(w.client(true), req); res.StatusCode != http.StatusNoContent || res.Header.Get("Link") != "" || hinted != "103</a.css>" {
		t.Errorf("answered %d with %v after %q", res.StatusCode, res.Header, hinted)
	}
}

// Bodies pass in both directions at the same time, with their trailers.
func TestBodiesPassAsTheyCome(t *testing.T) {
	bothProtocols(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, intercept.HTTP, newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.EnableFullDuplex()
			w.Header().Set("Trailer", "X-Sum")
			for in := bufio.NewReader(r.Body); ; {
				line, err := in.ReadString('\n')
				if err != nil {
					break
				}
				_, _ = io.WriteString(w, "got "+line)
				_ = control.Flush()
			}
			w.Header().Set("X-Sum", r.Trailer.Get("X-Client"))
		})), "")
		body, feed := io.Pipe()
		req := w.request("POST", "/", body)
		req.Trailer = http.Header{"X-Client": nil}
		answers := make(chan *http.Response, 1)
		go func() {
			res, err := w.client(http2).Do(req)
			if err != nil {
				t.Error(err)
			}
			answers <- res
		}()
		_, _ = io.WriteString(feed, "one\n")
		res := <-answers
		if res == nil {
			return
		}
		defer res.Body.Close()
		in := bufio.NewReader(res.Body)
		for _, line := range []string{"one\n", "two\n"} {
			if line == "two\n" {
				_, _ = io.WriteString(feed, line)
			}
			if got, err := in.ReadString('\n'); got != "got "+line || err != nil {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		req.Trailer["X-Client"] = []string{"42"}
		feed.Close()
		if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("the answer ended with %v", err)
		}
		if got := res.Trailer.Get("X-Sum"); got != "42" {
			t.Errorf("the trailer is %v", res.Trailer)
		}
	})
}

func TestEventsPassAtOnce(t *testing.T) {
	bothProtocols(t, func(t *testing.T, http2 bool) {
		next := make(chan struct{})
		w := newWorld(t, intercept.HTTP, newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			for range 3 {
				<-next
				_, _ = io.WriteString(w, "data: x\n\n")
				_ = http.NewResponseController(w).Flush()
			}
		})), "")
		res, err := w.client(http2).Do(w.request("GET", "/", nil)) // returns with the header alone
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for range 3 {
			next <- struct{}{}
			event := make([]byte, len("data: x\n\n"))
			if _, err := io.ReadFull(res.Body, event); err != nil || string(event) != "data: x\n\n" {
				t.Fatalf("got %q, %v", event, err)
			}
		}
	})
}

// The body is asked for only when the backend asks for it, and not at all when it refuses the request.
func TestABodyWaitsForTheBackendsWord(t *testing.T) {
	for name, goesOn := range map[string]bool{"100": true, "413": false} {
		t.Run(name, func(t *testing.T) {
			backend := newTCP(t, func(_ int, conn *net.TCPConn) {
				in := bufio.NewReader(conn)
				head, err := readHead(in)
				if err != nil || !strings.Contains(head, "Expect: 100-continue") {
					return
				}
				if !goesOn {
					_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
				body := make([]byte, 4)
				_, _ = io.ReadFull(in, body)
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%s", body)
			})
			w := newWorld(t, intercept.HTTP, backend, "")
			conn := w.dial()
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
			in := bufio.NewReader(conn)
			line, _ := in.ReadString('\n')
			if !goesOn {
				if !strings.HasPrefix(line, "HTTP/1.1 413") {
					t.Errorf("answered %q", line)
				}
				return
			}
			if line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("asked to go on with %q", line)
			}
			_, _ = in.ReadString('\n')
			_, _ = io.WriteString(conn, "body")
			if line, _ := in.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 200") {
				t.Errorf("answered %q", line)
			}
		})
	}
}

// A backend that ends its kept connection in the moment in which a request comes loses none: a request that may be sent
// twice is, and one that may not goes over a connection that was in use a moment ago, or a new one.
func TestARequestSurvivesAKeptConnectionThatEnds(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			backend := newTCP(t, func(_ int, conn *net.TCPConn) {
				in := bufio.NewReader(conn)
				if _, err := readHead(in); err != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				if method == "GET" { // the next request is read, and the connection ends without an answer
					_, _ = readHead(in)
				}
			})
			w := newWorld(t, intercept.HTTP, backend, "")
			for i := range 5 {
				if res, got := w.ask(w.client(false), w.request(method, "/", nil)); res.StatusCode != http.StatusOK || got != "ok" {
					t.Fatalf("request %d was answered %d %q", i, res.StatusCode, got)
				}
				if method == "POST" {
					time.Sleep(5 * time.Millisecond) // the end reaches the proxy by loopback
				}
			}
		})
	}
}

// A new connection that ends without an answer is the backend's answer: it may have acted.
func TestARequestIsNotSentTwice(t *testing.T) {
	var heads rawBackend
	backend := newTCP(t, func(_ int, conn *net.TCPConn) {
		head, _ := readHead(bufio.NewReader(conn))
		heads.mu.Lock()
		defer heads.mu.Unlock()
		heads.heads = append(heads.heads, head)
	})
	w := newWorld(t, intercept.HTTP, backend, "")
	res, got := w.ask(w.client(false), w.request("GET", "/", nil))
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(got, "the baseline: it ended the connection before it answered") {
		t.Errorf("answered %d %q", res.StatusCode, got)
	}
	heads.mu.Lock()
	defer heads.mu.Unlock()
	if len(heads.heads) != 1 {
		t.Errorf("the backend was asked %d times", len(heads.heads))
	}
}

func TestAnAnswerThatBreaksOffIsNotTakenForAWholeOne(t *testing.T) {
	bothProtocols(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, intercept.HTTP, newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})), "")
		res, err := w.client(http2).Do(w.request("GET", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("the client took %q for all", got)
		}
		eventually(t, "it is counted", func() bool { return w.failures(toBaseline, causeAnswer) == 1 })
	})
}

// A client that goes ends its request at the backend, which may be doing much for it.
func TestAClientThatGoesEndsItsRequest(t *testing.T) {
	bothProtocols(t, func(t *testing.T, http2 bool) {
		begun, ended := make(chan struct{}), make(chan struct{})
		w := newWorld(t, intercept.HTTP, newBackend(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
			close(ended)
		})), "")
		client := w.client(http2)
		ctx, leave := context.WithCancel(t.Context())
		req := w.request("GET", "/", nil).WithContext(ctx)
		go func() {
			if res, err := client.Do(req); err == nil {
				res.Body.Close()
			}
		}()
		<-begun
		leave()
		select {
		case <-ended:
		case <-time.After(15 * time.Second):
			t.Fatal("the request goes on")
		}
		eventually(t, "it is counted", func() bool { return w.failures(toBaseline, causeClient) == 1 })
	})
}

// net/http hands the preface of HTTP/2 to the handler of HTTP/1.1, as a request of HTTP/2 that has no such connection.
func TestHTTP2DoesNotBeginInTheMiddleOfAConnection(t *testing.T) {
	backend := newRawBackend(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	w := newWorld(t, intercept.HTTP, backend.address, "")
	answer := w.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n" + preface)
	if !strings.HasPrefix(answer, "HTTP/1.1 200 ") || !strings.Contains(answer, "HTTP/1.1 400 ") {
		t.Errorf("answered %q", answer)
	}
	if head := backend.last(t); !strings.HasPrefix(head, "GET / ") {
		t.Errorf("the backend got %q", head)
	}
}

func TestTunnelsAreRefused(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), "")
	if answer := w.say("CONNECT example.test:443 HTTP/1.1\r\nHost: example.test:443\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 501 ") {
		t.Errorf("answered %q", answer)
	}
}
