// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hostilePod answers every request with what answer writes, which need not be HTTP.
func hostilePod(answer func(net.Conn)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		answer(conn)
	})
}

// endless writes the same again and again until the reader has enough.
func endless(conn net.Conn, begin, again string) {
	if _, err := io.WriteString(conn, begin); err != nil {
		return
	}
	chunk := []byte(strings.Repeat(again, 1+32<<10/len(again)))
	for {
		if _, err := conn.Write(chunk); err != nil {
			return
		}
	}
}

// A pod is hostile: whatever it answers, the caller gets an answer or an end, the data plane's
// memory stays, and other tenants go on.
func TestHostilePodsAreContained(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct {
		answer func(net.Conn)
		code   int
		// cut is set where the answer must not seem whole.
		cut bool
	}{
		"endless headers":        {func(c net.Conn) { endless(c, head, "X-A: b\r\n") }, 502, false},
		"one endless header":     {func(c net.Conn) { endless(c, head+"X-A: ", "b") }, 502, false},
		"an endless status line": {func(c net.Conn) { endless(c, "HTTP/1.1 200 ", "b") }, 502, false},
		"endless 1xx answers":    {func(c net.Conn) { endless(c, "", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n") }, 502, false},
		"endless 100 Continue":   {func(c net.Conn) { endless(c, "", "HTTP/1.1 100 Continue\r\n\r\n") }, 502, false},
		"an unasked 101": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		}, 502, false},
		"no HTTP at all":    {func(c net.Conn) { endless(c, "SSH-2.0-hello\r\n", "x") }, 502, false},
		"nothing":           {func(net.Conn) {}, 502, false},
		"half a header":     {func(c net.Conn) { _, _ = io.WriteString(c, head+"X-A") }, 502, false},
		"HTTP/9.9":          {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/9.9 200 OK\r\n\r\n") }, 502, false},
		"a code of 0":       {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 000 OK\r\n\r\n") }, 502, false},
		"a code of 99999":   {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 99999 OK\r\n\r\n") }, 502, false},
		"a negative length": {func(c net.Conn) { _, _ = io.WriteString(c, head+"Content-Length: -1\r\n\r\n") }, 502, false},
		"two lengths": {func(c net.Conn) {
			_, _ = io.WriteString(c, head+"Content-Length: 2\r\nContent-Length: 5\r\n\r\nhello")
		}, 502, false},
		"a header with a bare CR": {func(c net.Conn) {
			_, _ = io.WriteString(c, head+"X-A: b\rSet-Cookie: smuggled=1\r\nContent-Length: 0\r\n\r\n")
		}, 502, false},
		"a header with NUL": {func(c net.Conn) {
			_, _ = io.WriteString(c, head+"X-A: b\x00smuggled\r\nContent-Length: 0\r\n\r\n")
		}, 502, false},
		"a header name with a space": {func(c net.Conn) {
			_, _ = io.WriteString(c, head+"X Smuggled: 1\r\nContent-Length: 0\r\n\r\n")
		}, 502, false},
		"a length above the body": {func(c net.Conn) { _, _ = io.WriteString(c, head+"Content-Length: 50\r\n\r\nhello") }, 200, true},
		"a length below the body": {func(c net.Conn) {
			_, _ = io.WriteString(c, head+"Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nX-Smuggled: 1\r\n\r\n")
		}, 200, false},
		"a body that ends in a chunk": {func(c net.Conn) {
			_, _ = io.WriteString(c, head+"Transfer-Encoding: chunked\r\n\r\n50\r\nhello")
		}, 200, true},
		"a chunk size above 64 bits": {func(c net.Conn) {
			_, _ = io.WriteString(c, head+"Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n")
		}, 200, true},
		"an endless chunk extension": {func(c net.Conn) { endless(c, head+"Transfer-Encoding: chunked\r\n\r\n5;", "a") }, 200, true},
		"endless small chunk extensions": {func(c net.Conn) {
			endless(c, head+"Transfer-Encoding: chunked\r\n\r\n", "1;"+strings.Repeat("a", 2000)+"\r\nx\r\n")
		}, 200, true},
		"giant trailers": {func(c net.Conn) {
			endless(c, head+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", "X-A: b\r\n")
		}, 200, true},
		"a body that is reset in the middle": {func(c net.Conn) {
			_, _ = io.WriteString(c, head+"Content-Length: 50\r\n\r\nhello")
			_ = c.(*net.TCPConn).SetLinger(0)
		}, 200, true},
		"both framings": {func(c net.Conn) {
			_, _ = io.WriteString(c, head+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nX-Smuggled: 1\r\n\r\n")
		}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, hostilePod(c.answer), func(s *setup) { s.opts.Limits.ResponseTimeout = 5 * time.Second })
			s.under(20*10, 64, func(ctx context.Context) {
				many(10, func(i int) {
					req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url+demo+"proxy", strings.NewReader("x"))
					req.Header.Set("Authorization", "Bearer "+adminToken)
					transport := &http.Transport{DisableCompression: true}
					defer transport.CloseIdleConnections()
					res, err := transport.RoundTrip(req)
					if err != nil {
						if c.code != 0 && !c.cut {
							t.Errorf("the caller got no answer: %v", err)
						}
						return
					}
					defer res.Body.Close()
					_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<20))
					if c.code != 0 && res.StatusCode != c.code {
						t.Errorf("the caller got %d, want %d", res.StatusCode, c.code)
					}
					if c.cut != (err != nil) {
						t.Errorf("the answer ended with %v; it must seem cut: %t", err, c.cut)
					}
					if strings.Contains(strings.ToLower(fmt.Sprint(res.Header, res.Trailer)), "smuggled") {
						t.Errorf("the caller got a smuggled header: %v", res.Header)
					}
				})
			})
		})
	}
}

// gzipBomb is so many MiB of zeros, in a thousandth of it: gzip's members add up.
func gzipBomb(mib int) []byte {
	var member bytes.Buffer
	packer := gzip.NewWriter(&member)
	_, _ = packer.Write(make([]byte, 1<<20))
	_ = packer.Close()
	return bytes.Repeat(member.Bytes(), mib)
}

// What a pod compressed is passed on as it is: a bomb stays as small as it came.
func TestACompressedBombIsNotInflated(t *testing.T) {
	bomb := gzipBomb(1024)
	accepted := make(chan string, 1000)
	s := newSiege(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepted <- r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb)
	}))
	for _, accept := range []string{"gzip", "br, zstd", ""} {
		s.under(50, 32, func(context.Context) {
			res, body := s.do("GET", demo+"proxy", adminToken, nil, func(r *http.Request) {
				if accept != "" {
					r.Header.Set("Accept-Encoding", accept)
				}
			})
			if res.Header.Get("Content-Encoding") != "gzip" || body != string(bomb) {
				t.Errorf("%d bytes became %d", len(bomb), len(body))
			}
			if got := <-accepted; got != accept {
				t.Errorf("the pod was told %q, the caller said %q", got, accept)
			}
		})
	}
}

// A pod that drips holds one request of its own instance and no more; it ends with its caller.
func TestAPodThatDripsHoldsNobodyElse(t *testing.T) {
	s := newSiege(t, hostilePod(func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
		for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
			if _, err := io.WriteString(c, "x"); err != nil {
				tick.Stop()
				return
			}
		}
	}), func(s *setup) { s.opts.Limits.InstanceRequests = 5 })
	s.under(300, 32, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		many(20, func(int) {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.url+demo+"proxy", nil)
			req.Header.Set("Authorization", "Bearer "+adminToken)
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			res, err := transport.RoundTrip(req)
			if err != nil {
				return // the second is over
			}
			defer res.Body.Close()
			_, _ = io.Copy(io.Discard, res.Body)
			if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusTooManyRequests {
				t.Errorf("got %d", res.StatusCode)
			}
		})
	})
}
