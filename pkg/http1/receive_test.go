// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAHostilePodIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		err    error
	}{
		"a header that is too large":              {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 70) + "\r\n", ErrHeaderTooLarge},
		"too many lines":                          {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1000) + "\r\n", ErrHeaderTooLarge},
		"one line that is too large":              {"HTTP/1.1 200 " + strings.Repeat("x", 70<<10), ErrHeaderTooLarge},
		"1xx answers without end":                 {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 10), ErrInformational},
		"1xx answers that are too large together": {strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", 20<<10)+"\r\n\r\n", 5), ErrHeaderTooLarge},
		"an alert of TLS":                         {"\x15\x03\x01\x00\x02\x02\x46", ErrTLS},
		"no HTTP":                                 {"SSH-2.0-OpenSSH_9.2\r\n\r\n", ErrMalformed},
		"HTTP/2":                                  {"HTTP/2.0 200 OK\r\n\r\n", ErrMalformed},
		"HTTP/0.9":                                {"HTTP/0.9 200 OK\r\n\r\n", ErrMalformed},
		"a code below 100":                        {"HTTP/1.1 099 What\r\n\r\n", ErrMalformed},
		"a code of zeros":                         {"HTTP/1.1 000 What\r\n\r\n", ErrMalformed},
		"a code that is negative":                 {"HTTP/1.1 -10 What\r\n\r\n", ErrMalformed},
		"two lengths":                             {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", ErrMalformed},
		"a length with a sign":                    {"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nxx", ErrMalformed},
		"an unknown transfer coding":              {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", ErrMalformed},
		"two transfer codings":                    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ErrMalformed},
		"a space before the colon":                {"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nxx", ErrMalformed},
		"a line that is folded at the start":      {"HTTP/1.1 200 OK\r\n X: y\r\n\r\n", ErrMalformed},
		"chunks with a length of a megabyte":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 8<<10) + "1\r\nx\r\n0\r\n\r\n", http.ErrLineTooLong},
		"a chunk that is shorter than it says":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nx", io.ErrUnexpectedEOF},
		"a body that is shorter than it says":     {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nx", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
				_, _ = http.ReadRequest(in)
				_, _ = io.WriteString(conn, c.answer)
				_ = conn.CloseWrite()
				_, _ = io.Copy(io.Discard, in)
			})
			tr := newTransport(t, p)
			_, _, err := ask(t, tr, request(t, "GET", nil))
			if !errors.Is(err, c.err) && !strings.Contains(fmt.Sprint(err), c.err.Error()) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			if tr.pool.count != 0 {
				t.Error("the connection was kept")
			}
			if p.dialled() != 1 {
				t.Errorf("it was asked %d times", p.dialled())
			}
		})
	}
}

// A limit that counted what lies behind the header would refuse small headers of large bodies, and
// one that stayed would end the body.
func TestTheHeadersLimitIsNotTheBodys(t *testing.T) {
	body := strings.Repeat("x", 1<<20)
	p := newPod(t, answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)))
	tr := newTransport(t, p)
	tr.MaxHeaderBytes = 100
	for range 2 {
		if _, got, err := ask(t, tr, request(t, "GET", nil)); err != nil || got != body {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
	}
}

// The lines of a body that comes with the header are none of the header's.
func TestLinesOfTheBodyAreNotCounted(t *testing.T) {
	body := strings.Repeat("\n", 10*MaxHeaderLines)
	header := "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", MaxHeaderLines-10)
	p := newPod(t, answers(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", header, len(body), body)))
	if _, got, err := ask(t, newTransport(t, p), request(t, "GET", nil)); err != nil || got != body {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
}

// Whoever reads on for as long as something is there must not come to wait.
func TestABodyTellsWhatIsThere(t *testing.T) {
	more := make(chan struct{})
	p := newPod(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
		<-more
		_, _ = io.WriteString(c, "cd")
	})
	res, err := newTransport(t, p).RoundTrip(request(t, "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b := res.Body.(*body)
	part := make([]byte, 2)
	if !b.Ready() {
		t.Error("what came with the header is not there")
	}
	_, _ = io.ReadFull(b, part)
	if b.Ready() {
		t.Error("something is there that the pod has not sent")
	}
	close(more)
	for deadline := time.Now().Add(20 * time.Second); !b.Ready(); {
		if time.Now().After(deadline) {
			t.Fatal("what the pod sent is not there")
		}
	}
	if _, err := io.ReadFull(b, part); err != nil || string(part) != "cd" {
		t.Errorf("got %q, %v", part, err)
	}
	_, _ = b.Read(part) // the end, if it did not come along
	if b.Ready() {
		t.Error("something is there after the end")
	}
}

// What a pod sends must not reach a log by way of an error.
func TestErrorsDoNotQuoteThePod(t *testing.T) {
	for _, answer := range []string{"secret\r\n\r\n", "HTTP/1.1 secret\r\n\r\n", "HTTP/1.1 200 OK\r\nsecret\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: secret\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: secret\r\n\r\n"} {
		p := newPod(t, answers(answer))
		if _, _, err := ask(t, newTransport(t, p), request(t, "GET", nil)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

func TestTrailersArrive(t *testing.T) {
	for name, announced := range map[string]string{"announced": "Trailer: X-Sum\r\n", "not announced": ""} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, answers("HTTP/1.1 200 OK\r\n"+announced+"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n"))
			tr := newTransport(t, p)
			res, err := tr.RoundTrip(request(t, "GET", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.Trailer.Get("X-Sum") != "7" {
				t.Errorf("got %v, %v", res.Trailer, err)
			}
			if tr.pool.count != 1 {
				t.Error("the connection was not kept")
			}
		})
	}
}

// A trailer is read whole, into memory, before anybody can look at it.
func TestATrailerIsBounded(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
	for name, c := range map[string]struct {
		trailer string
		err     error
	}{
		"as many fields as may be":      {strings.Repeat("X-A: b\r\n", MaxTrailerFields), nil},
		"one more":                      {strings.Repeat("X-A: b\r\n", MaxTrailerFields+1), ErrTrailerTooLarge},
		"fields of different names":     {numbered(MaxTrailerFields + 1), ErrTrailerTooLarge},
		"as many bytes as may be":       {"X-A: " + strings.Repeat("b", MaxTrailerBytes-len("X-A: \r\n\r\n")) + "\r\n", nil},
		"one byte more":                 {"X-A: " + strings.Repeat("b", MaxTrailerBytes-len("X-A: \r\n\r\n")+1) + "\r\n", ErrTrailerTooLarge},
		"a megabyte":                    {"X-A: " + strings.Repeat("b", 1<<20) + "\r\n", ErrTrailerTooLarge},
		"an end in the middle of a one": {"X-A: b", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			answer := head + c.trailer
			if !errors.Is(c.err, io.ErrUnexpectedEOF) {
				answer += "\r\n"
			}
			p := newPod(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
				_, _ = http.ReadRequest(in)
				_, _ = io.WriteString(conn, answer)
				_ = conn.CloseWrite()
				_, _ = io.Copy(io.Discard, in)
			})
			tr := newTransport(t, p)
			_, body, err := ask(t, tr, request(t, "GET", nil))
			switch {
			case body != "ok":
				t.Errorf("the body is %q", body)
			case c.err == nil && err != nil, errors.Is(c.err, ErrTrailerTooLarge) != errors.Is(err, ErrTrailerTooLarge), c.err != nil && err == nil:
				t.Errorf("got %v, want %v", err, c.err)
			case c.err != nil && tr.pool.count != 0:
				t.Error("the connection was kept")
			}
		})
	}
}

func numbered(fields int) string {
	var b strings.Builder
	for i := range fields {
		fmt.Fprintf(&b, "X-%d: b\r\n", i)
	}
	return b.String()
}

func TestTheContextEndsAnExchange(t *testing.T) {
	cause := errors.New("enough")
	for name, answer := range map[string]string{
		"before the answer":         "",
		"in the answer's header":    "HTTP/1.1 200 OK\r\n",
		"in the middle of the body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &Transport{Upstream: dialer(func() net.Conn {
					near, far := net.Pipe()
					go func() {
						defer far.Close()
						in := bufio.NewReader(far)
						_, _ = http.ReadRequest(in)
						_, _ = io.WriteString(far, answer)
						_, _ = io.Copy(io.Discard, in)
					}()
					return near
				})}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Minute, func() { cancel(cause) })
				start := time.Now()
				_, _, err := ask(t, tr, request(t, "GET", nil).WithContext(ctx))
				if err == nil || time.Since(start) != time.Minute {
					t.Errorf("got %v after %v", err, time.Since(start))
				}
				if name != "in the middle of the body" && !errors.Is(err, cause) {
					t.Errorf("got %v, want the context's cause", err)
				}
			})
		})
	}
}

// After 101 the connection is the caller's, with what came behind the header.
func TestASwitch(t *testing.T) {
	p := newPod(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		_, _ = http.ReadRequest(in)
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nearly")
		_, _ = io.Copy(c, in)
	})
	tr := newTransport(t, p)
	var conn net.Conn
	req := request(t, "GET", nil)
	req.Header.Set("Upgrade", "websocket")
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { conn = i.Conn }}))
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	early := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, early); err != nil || string(early) != "early" {
		t.Errorf("got %q, %v", early, err)
	}
	if _, err := io.WriteString(conn, "echo"); err != nil {
		t.Fatal(err)
	}
	echo := make([]byte, 4)
	if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "echo" {
		t.Errorf("got %q, %v", echo, err)
	}
	res.Body.Close()
	if _, err := conn.Read(echo); err == nil {
		t.Error("the connection outlives the answer")
	}
	if tr.pool.count != 0 {
		t.Error("a switched connection was kept")
	}
}

// FuzzAnswer lets a pod answer anything: nothing panics, and a connection is kept only if the answer
// is whole, framed in one way, and the last thing that the pod wrote.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nuntil the end",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nX: y\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\nx",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.0 200 OK\nContent-Length: 1\n\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX : y\r\n\r\nok",
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		written := make(chan error, 1)
		tr := &Transport{Upstream: dialer(func() net.Conn {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				in := bufio.NewReader(far)
				if _, err := http.ReadRequest(in); err != nil {
					written <- err
					return
				}
				_, err := far.Write(answer) // until the last byte was read
				written <- err
				if len(answer) > 0 && err == nil {
					_, _ = io.Copy(io.Discard, in)
				}
			}()
			return near
		})}
		defer tr.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, _, _ = ask(t, tr, request(t, "POST", nil).WithContext(ctx))
		kept := tr.pool.count
		tr.CloseIdleConnections()
		if err := <-written; kept > 0 && err != nil {
			t.Errorf("a connection was kept before its answer had been read: %v", err)
		}
		if doubt := doubtful(answer); kept > 0 && doubt != "" {
			t.Errorf("a connection was kept although %s", doubt)
		}
	})
}

// doubtful says why what a pod wrote leaves its connection in doubt, in words of its own: empty if
// it is one answer and nothing else.
func doubtful(written []byte) string {
	from := bytes.NewReader(written)
	in := bufio.NewReader(from)
	read := func() int { return len(written) - from.Len() - in.Buffered() }
	for {
		begin := read()
		res, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		head := bytes.ToLower(written[begin:read()])
		switch {
		case err != nil:
			return "its header is none: " + err.Error()
		case res.StatusCode == http.StatusSwitchingProtocols:
			return "it was switched"
		case res.StatusCode < 200:
			continue
		}
		for name := range res.Header {
			if strings.ContainsAny(name, " \t") {
				return "a name has a space"
			}
		}
		if len(res.TransferEncoding) > 0 && bytes.Contains(head, []byte("\ncontent-length:")) {
			return "it has two lengths"
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return "its body is not whole: " + err.Error()
		}
		if _, err := in.ReadByte(); err == nil {
			return "there is more behind the answer"
		}
		return ""
	}
}
