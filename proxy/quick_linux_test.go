// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

func TestWhichRequestsArePlain(t *testing.T) {
	const host = "Host: x\r\n"
	for head, plain := range map[string]bool{
		"GET / HTTP/1.1\r\n" + host + "\r\n":                                              true,
		"DELETE /a?b HTTP/1.1\r\n" + host + "Cookie: a\r\n\r\n":                           true,
		"POST / HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n":                        true,
		"GET / HTTP/1.1\r\n" + host + "Connection: Keep-Alive\r\n\r\n":                    true,
		"GET / HTTP/1.1\r\n\r\n":                                                          false,
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n":                                             false,
		"GET / HTTP/1.1\r\n" + host + host + "\r\n":                                       false,
		"GET / HTTP/1.0\r\n" + host + "\r\n":                                              false,
		"GET http://x/ HTTP/1.1\r\n" + host + "\r\n":                                      false,
		"OPTIONS * HTTP/1.1\r\n" + host + "\r\n":                                          false,
		"CONNECT x:1 HTTP/1.1\r\n" + host + "\r\n":                                        false,
		"PRI * HTTP/2.0\r\n\r\n":                                                          false,
		"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\n\r\n":                        false,
		"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n":               false,
		"GET / HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n":                         false,
		"GET / HTTP/1.1\r\n" + host + "Connection: x\r\n\r\n":                             false,
		"GET / HTTP/1.1\r\n" + host + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n": false,
		"GET / HTTP/1.1\r\n" + host + "Expect: 100-continue\r\n\r\n":                      false,
		"GET / HTTP/1.1\r\n" + host + "A B: c\r\n\r\n":                                    false,
		"GET / HTTP/1.1\r\n" + host + "A: \x01\r\n\r\n":                                   false,
		"GET / HTTP/1.1\n" + host + "\nGET /smuggled HTTP/1.1\r\n" + host + "\r\n":        false, // net/http takes it to end earlier
		"GET / HTTP/1.1\r\nHost: x\n\n\r\n\r\n":                                           false,
	} {
		if got := parsePlain([]byte(head)) != nil; got != plain {
			t.Errorf("%q: plain %t, want %t", head, got, plain)
		}
	}
}

// FuzzPlain holds a plain request to its one meaning: written out again, it is the same, and net/http reads nothing behind it.
func FuzzPlain(f *testing.F) {
	for _, head := range []string{"GET /a?b HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\nGET / HTTP/1.1\r\n\r\n"} {
		f.Add([]byte(head))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		end := bytes.Index(head, headEnd)
		if end < 0 {
			return
		}
		head = head[:end+len(headEnd)]
		r := parsePlain(head)
		if r == nil {
			return
		}
		in := bufio.NewReader(bytes.NewReader(head))
		again, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("%q is plain, and net/http says %v", head, err)
		}
		if rest, _ := io.ReadAll(in); len(rest) > 0 || again.RequestURI != r.RequestURI || again.Host != r.Host || len(again.Header) != len(r.Header) {
			t.Errorf("%q is read as %s of %s, and behind it is %q", head, again.RequestURI, again.Host, rest)
		}
	})
}

// A connection whose plain requests were served without net/http goes to it with the first that is not, and no byte is lost.
func TestAConnectionGoesToNetHTTPWithItsBytes(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+string(body))
	})), "")
	for name, parts := range map[string][]string{
		"at once":     {"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\nPOST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbodyGET /4 HTTP/1.1\r\nHost: x\r\n\r\n"},
		"in parts":    {"GE", "T /1 HTTP/1.1\r\nHost: x\r\n\r", "\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\nPOST /3 HTTP/1.1\r\nHo", "st: x\r\nContent-Length: 4\r\n\r\nbo", "dyGET /4 HTTP/1.1\r\nHost: x\r\n\r\n"},
		"a long head": {"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\nPOST /3 HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 2*quickBuffer) + "\r\nContent-Length: 4\r\n\r\nbodyGET /4 HTTP/1.1\r\nHost: x\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.dial()
			for _, part := range parts {
				_, _ = io.WriteString(conn, part)
				time.Sleep(2 * time.Millisecond) // so that it comes by itself
			}
			in := bufio.NewReader(conn)
			for _, want := range []string{"GET /1 ", "GET /2 ", "POST /3 body", "GET /4 "} {
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if body, err := io.ReadAll(res.Body); err != nil || string(body) != want {
					t.Errorf("answered %q, %v, want %q", body, err, want)
				}
			}
		})
	}
}

// The watch of a client ends with the request that takes long, and not the connection.
func TestAConnectionGoesOnAfterALongRequest(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(goneAfter + 3*watchEvery)
		}
		_, _ = io.WriteString(w, "ok")
	})), "")
	for name, pipelined := range map[string]bool{"one after the other": false, "the next one before the answer": true} {
		t.Run(name, func(t *testing.T) {
			conn := w.dial()
			in := bufio.NewReader(conn)
			ask := func(path string) { _, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n") }
			answered := func() {
				t.Helper()
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if body, err := io.ReadAll(res.Body); err != nil || string(body) != "ok" {
					t.Errorf("answered %q, %v", body, err)
				}
			}
			ask("/slow")
			if !pipelined {
				answered()
			}
			ask("/fast")
			if pipelined {
				answered()
			}
			answered()
		})
	}
}

// A defect of the proxy's ends its own connection.
func TestADefectEndsOneConnection(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), "")
	table := w.proxy.state.table.Load()
	w.proxy.state.table.Store(nil)
	for _, head := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		conn := w.dial()
		_, _ = io.WriteString(conn, head)
		if answer, err := io.ReadAll(conn); err == nil && len(answer) > 0 {
			t.Errorf("answered %q", answer)
		}
	}
	w.proxy.state.table.Store(table)
	if _, got := w.ask(w.client(false), w.request("GET", "/", nil)); got != baselineAnswered {
		t.Errorf("afterwards answered %q", got)
	}
	if n := w.failures(toBaseline, "defect"); n != 1 {
		t.Errorf("%v defects are counted", n)
	}
}

// writes keeps what was written, write by write.
type writes struct {
	net.Conn
	all []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.all = append(w.all, string(p))
	return len(p), nil
}

func TestTheFramingOfAnAnswer(t *testing.T) {
	date := "Date: x\r\n"
	for name, c := range map[string]struct {
		isHead bool
		handle func(*answer)
		want   []string
		fails  error
	}{
		"nothing":             {handle: func(*answer) {}, want: []string{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + date + "\r\n"}},
		"a short body":        {handle: func(w *answer) { _, _ = io.WriteString(w, "ok") }, want: []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + date + "\r\nok"}},
		"a flushed one":       {handle: func(w *answer) { _, _ = io.WriteString(w, "a"); _ = w.FlushError(); _, _ = io.WriteString(w, "b") }, want: []string{"HTTP/1.1 200 OK\r\n" + date + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "1\r\nb\r\n0\r\n\r\n"}},
		"a status of its own": {handle: func(w *answer) { w.WriteHeader(799) }, want: []string{"HTTP/1.1 799 status code 799\r\nContent-Length: 0\r\n" + date + "\r\n"}},
		"no content":          {handle: func(w *answer) { w.WriteHeader(http.StatusNoContent); _, _ = io.WriteString(w, "x") }, want: []string{"HTTP/1.1 204 No Content\r\n" + date + "\r\n"}},
		"HEAD":                {isHead: true, handle: func(w *answer) { w.header["Content-Length"] = []string{"9"}; w.WriteHeader(http.StatusOK) }, want: []string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n" + date + "\r\n"}},
		"a line's end":        {handle: func(w *answer) { w.header["A"] = []string{"b\r\nc: d"}; w.header["E F"] = []string{"g"} }, want: []string{"HTTP/1.1 200 OK\r\nA: b  c: d\r\nContent-Length: 0\r\n" + date + "\r\n"}},
		"too little":          {handle: func(w *answer) { w.header["Content-Length"] = []string{"3"}; _, _ = io.WriteString(w, "ab") }, want: nil, fails: errTooLittleBody},
		"too much":            {handle: func(w *answer) { w.header["Content-Length"] = []string{"1"}; _, _ = io.WriteString(w, "ab") }, want: nil, fails: errTooMuchBody},
		"a trailer": {handle: func(w *answer) {
			w.header["Trailer"] = []string{"A, Content-Length"}
			_, _ = io.WriteString(w, "x")
			w.header["A"] = []string{"1"}
			w.header[http.TrailerPrefix+"B"] = []string{"2"}
		}, want: []string{"HTTP/1.1 200 OK\r\n" + date + "Trailer: A, Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: 1\r\nB: 2\r\n\r\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &writes{}
			w := newAnswer(conn, c.isHead)
			w.header["Date"] = []string{"x"}
			c.handle(w)
			err := w.finish()
			if err != c.fails { //nolint:errorlint // it is not wrapped
				t.Errorf("ended with %v, want %v", err, c.fails)
			}
			if got, want := fieldsSorted(strings.Join(conn.all, "|")), fieldsSorted(strings.Join(c.want, "|")); got != want {
				t.Errorf("wrote %q, want %q", got, want)
			}
			w.release()
		})
	}
}
