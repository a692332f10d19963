// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2conn speaks HTTP/2 frame by frame, and says also what no client would.
type h2conn struct {
	net.Conn
	*http2.Framer
	out     *hpack.Encoder
	headers bytes.Buffer
	next    uint32
}

// dialH2 connects to a TLS address and makes the handshake of HTTP/2.
func dialH2(t testing.TB, address string, i int) *h2conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%200))}}
	conn, err := tls.DialWithDialer(&dialer, "tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Error(err)
		return nil
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	c := &h2conn{Conn: conn, Framer: http2.NewFramer(conn, conn), next: 1}
	c.Framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.Framer.AllowIllegalWrites = true
	c.out = hpack.NewEncoder(&c.headers)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Error(err)
	}
	if err := c.WriteSettings(); err != nil {
		t.Error(err)
	}
	return c
}

// block encodes header fields.
func (c *h2conn) block(fields ...string) []byte {
	c.headers.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = c.out.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return c.headers.Bytes()
}

// plain are the pseudo-headers of a good request.
func plain(method, path string, more ...string) []string {
	return append([]string{":method", method, ":scheme", "https", ":authority", "x", ":path", path, "authorization", "Bearer " + adminToken}, more...)
}

// request opens a stream.
func (c *h2conn) request(end bool, fields ...string) (uint32, error) {
	id := c.next
	c.next += 2
	return id, c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(fields...), EndHeaders: true, EndStream: end})
}

// answer reads until a stream is answered, reset or lost with its connection, and says which: a
// status, "reset", "goaway" or "closed".
func (c *h2conn) answer(id uint32) string {
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return "closed"
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == id {
				return f.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return "reset"
			}
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return "goaway"
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = c.WriteSettingsAck()
			}
		}
	}
}

func (s *siege) address() string { return strings.TrimPrefix(s.url, "http://") }

func rapidReset(c *h2conn) error {
	id, err := c.request(true, plain("GET", demo+"proxy/big")...)
	if err != nil {
		return err
	}
	return c.WriteRSTStream(id, http2.ErrCodeCancel)
}

func continuationFlood(c *h2conn) error {
	if c.next == 1 {
		c.next += 2
		return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block(plain("GET", demo+"proxy")...)})
	}
	return c.WriteContinuation(1, false, c.block("x-a", strings.Repeat("b", 1000)))
}

// The floods of HTTP/2: each ends with the connection closed, or costs no more than what a
// connection may have under way. 4 connections send 2,000 frames each; 12,000 with SANDBAR_HEAVY=1,
// and where answers pile up that nobody reads, of which net/http holds 10,000.
func TestHTTP2FloodsAreBounded(t *testing.T) {
	for name, flood := range map[string]func(*h2conn) error{
		"rapid reset (CVE-2023-44487)":  rapidReset,
		"CONTINUATION (CVE-2023-45288)": continuationFlood,
		"empty CONTINUATION": func(c *h2conn) error {
			if c.next == 1 {
				c.next += 2
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block(plain("GET", demo+"proxy")...)})
			}
			return c.WriteContinuation(1, false, nil)
		},
		"HPACK bomb": func(c *h2conn) error {
			// One entry of the table is large; each byte of the block stands for all of it.
			big := c.block("x-bomb", strings.Repeat("b", 3000))
			block := append(append([]byte{}, big...), bytes.Repeat([]byte{0x80 | 62}, 10000)...)
			c.next += 2
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next - 2, BlockFragment: block, EndHeaders: true, EndStream: true})
		},
		"PING without reading (CVE-2019-9512)":     func(c *h2conn) error { return c.WritePing(false, [8]byte{}) },
		"SETTINGS without reading (CVE-2019-9515)": func(c *h2conn) error { return c.WriteSettings() },
		"RST_STREAM of idle streams":               func(c *h2conn) error { return c.WriteRSTStream(99, http2.ErrCodeCancel) },
		"resets provoked (CVE-2019-9514)": func(c *h2conn) error {
			_, err := c.request(true, ":method", "GET")
			return err
		},
		"empty DATA (CVE-2019-9518)": func(c *h2conn) error {
			if c.next == 1 {
				_, err := c.request(false, plain("POST", demo+"sync")...)
				return err
			}
			return c.WriteData(1, false, nil)
		},
		"WINDOW_UPDATE of one byte": func(c *h2conn) error { return c.WriteWindowUpdate(0, 1) },
		"PRIORITY": func(c *h2conn) error {
			return c.WritePriority(c.next, http2.PriorityParam{StreamDep: c.next + 2, Weight: 1})
		},
		"unknown frames": func(c *h2conn) error { return c.WriteRawFrame(0xfe, 0, 0, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var atOnce, most atomic.Int64
			s := newSiege(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				most.Store(max(most.Load(), atOnce.Add(1)))
				defer atOnce.Add(-1)
				_, _ = io.Copy(io.Discard, r.Body)
			}), overTLS(t), func(s *setup) { s.opts.Limits.InstanceRequests = 20 })
			frames := 2000
			if os.Getenv("SANDBAR_HEAVY") != "" || strings.Contains(name, "without reading") {
				frames = 12000
			}
			var sent atomic.Int64
			s.under(4*100*5, 96, func(ctx context.Context) {
				many(4, func(i int) {
					c := dialH2(t, s.address(), i)
					if c == nil {
						return
					}
					defer c.Close()
					_ = c.SetDeadline(time.Now().Add(3 * time.Second)) // the flood is bounded
					for range frames {
						if err := flood(c); err != nil || ctx.Err() != nil {
							return
						}
						sent.Add(1)
					}
				})
			})
			if most.Load() > 20 {
				t.Errorf("%d requests were at the pod at once", most.Load())
			}
			t.Logf("%d frames were taken", sent.Load())
		})
	}
}

// A client that opens no window gets the head of an answer and then nothing; it does not hold the
// request longer than a client may stall.
func TestHTTP2ReadersThatOpenNoWindowAreCut(t *testing.T) {
	gone := make(chan struct{}, 100)
	s := newSiege(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				gone <- struct{}{}
				return
			}
		}
	}), overTLS(t), func(s *setup) { s.opts.Limits.StallTimeout = 300 * time.Millisecond })
	s.under(500, 96, func(context.Context) {
		c := dialH2(t, s.address(), 0)
		if c == nil {
			return
		}
		defer c.Close()
		_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for range 20 {
			if _, err := c.request(true, plain("GET", demo+"proxy/big")...); err != nil {
				t.Error(err)
			}
		}
		for range 20 {
			select {
			case <-gone:
			case <-time.After(20 * time.Second):
				t.Error("the pod still sends to a client that opened no window")
				return
			}
		}
	})
}

// More streams than a connection may have are refused one by one.
func TestHTTP2StreamsAboveTheLimitAreRefused(t *testing.T) {
	release := make(chan struct{})
	s := newSiege(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}), overTLS(t), func(s *setup) { s.opts.Limits.HTTP2Streams = 5 })
	c := dialH2(t, s.address(), 0)
	defer c.Close()
	var last uint32
	for range 6 {
		var err error
		if last, err = c.request(true, plain("GET", demo+"proxy")...); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.answer(last); got != "reset" {
		t.Errorf("the sixth stream of five got %s", got)
	}
	close(release)
}

// A connection that begins and gives up requests faster than they are served is ended, and counted.
func TestARapidResetIsCounted(t *testing.T) {
	w := newWorld(t, holder(), overTLS(t), func(s *setup) { s.opts.Limits.HTTP2Streams = 1 })
	c := dialH2(t, strings.TrimPrefix(w.url, "http://"), 0)
	defer c.Close()
	for range 2000 {
		id, err := c.request(true, plain("GET", demo+"proxy/hold")...)
		if err != nil {
			break // it was ended
		}
		if err := c.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
			break
		}
	}
	w.wantMetrics(`sandbar_dataplane_http2_errors_total{error="resets"} 1`, `sandbar_dataplane_http2_errors_total{error="streams"} 0`)
}

// What is no request in HTTP/2 (RFC 9113 section 8) is refused before a pod hears of it, and
// what is one arrives as one. h2spec cannot be had here; instead a bare net/http server is asked
// the same, and we answer alike wherever the request does not reach a handler.
func TestHTTP2RequestsThatAreNoneAreRefused(t *testing.T) {
	pod := newRawPod(t)
	w := newWorld(t, nil, overTLS(t), func(s *setup) { s.backendAddress = pod.Addr().String() })
	bare := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	bare.EnableHTTP2 = true
	bare.Config.ErrorLog = log.New(io.Discard, "", 0)
	bare.StartTLS()
	t.Cleanup(bare.Close)

	path := demo + "proxy/outer"
	good := func(more ...string) []string { return plain("POST", path, more...) }
	without := func(name string) []string {
		fields := good()
		for i := 0; i < len(fields); i += 2 {
			if fields[i] == name {
				return append(fields[:i:i], fields[i+2:]...)
			}
		}
		return fields
	}
	for name, c := range map[string]struct {
		fields []string
		body   string
		// want is one of several where the stream may be reset before its answer; empty for as
		// the bare server answers, with nothing at the pod.
		want string
	}{
		"a good request":                           {good(), "hello", "200"},
		"connection":                               {good("connection", "x-smuggled"), "", ""},
		"keep-alive":                               {good("keep-alive", "smuggled"), "", ""},
		"proxy-connection":                         {good("proxy-connection", "smuggled"), "", ""},
		"transfer-encoding":                        {good("transfer-encoding", "chunked"), "0\r\n\r\n" + smuggledRequest, ""},
		"upgrade":                                  {good("upgrade", "h2c"), "", ""},
		"te that is not trailers":                  {good("te", "smuggled"), "", ""},
		"te trailers":                              {good("te", "trailers"), "", "200"},
		"a name in upper case":                     {good("X-Smuggled", "1"), "", ""},
		"a name with a space":                      {good("x smuggled", "1"), "", ""},
		"a name with a colon":                      {good("x:smuggled", "1"), "", ""},
		"a name with CRLF":                         {good("x-a\r\nx-smuggled", "1"), "", ""},
		"an empty name":                            {good("", "smuggled"), "", ""},
		"a value with CRLF":                        {good("x-a", "b\r\nx-smuggled: 1"), "", ""},
		"a value with LF":                          {good("x-a", "b\nx-smuggled: 1"), "", ""},
		"a value with CR":                          {good("x-a", "b\rx-smuggled: 1"), "", ""},
		"a value with NUL":                         {good("x-a", "b\x00smuggled"), "", ""},
		"no :method":                               {without(":method"), "", ""},
		"no :path":                                 {without(":path"), "", ""},
		"no :scheme":                               {without(":scheme"), "", ""},
		"two :path":                                {good(":path", "/smuggled"), "", ""},
		"a pseudo-header behind a header":          {append(without(":path"), ":path", path), "", ""},
		"a pseudo-header that there is not":        {append([]string{":smuggled", "1"}, good()...), "", ""},
		"a pseudo-header of answers":               {append([]string{":status", "200"}, good()...), "", ""},
		"an empty :path":                           {[]string{":method", "POST", ":scheme", "https", ":authority", "x", ":path", ""}, "", ""},
		"a :path with a space":                     {[]string{":method", "POST", ":scheme", "https", ":authority", "x", ":path", path + " HTTP/1.1", "authorization", "Bearer " + adminToken}, "", ""},
		"a :path with CRLF":                        {[]string{":method", "POST", ":scheme", "https", ":authority", "x", ":path", path + "\r\nx-smuggled: 1", "authorization", "Bearer " + adminToken}, "", ""},
		"a :path that is absolute":                 {[]string{":method", "POST", ":scheme", "https", ":authority", "x", ":path", "http://smuggled" + path, "authorization", "Bearer " + adminToken}, "", ""},
		"a :path without a slash":                  {[]string{":method", "POST", ":scheme", "https", ":authority", "x", ":path", path[1:], "authorization", "Bearer " + adminToken}, "", ""},
		"a :path that is two":                      {[]string{":method", "POST", ":scheme", "https", ":authority", "x", ":path", "/" + path, "authorization", "Bearer " + adminToken}, "", "400"},
		"a :method with a space":                   {[]string{":method", "GET /smuggled", ":scheme", "https", ":authority", "x", ":path", path, "authorization", "Bearer " + adminToken}, "", "405"},
		"CONNECT to another host":                  {[]string{":method", "CONNECT", ":authority", "smuggled:80", "authorization", "Bearer " + adminToken}, "", "400"},
		"extended CONNECT (RFC 8441)":              {[]string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "x", ":path", path, "authorization", "Bearer " + adminToken}, "", ""},
		"an :authority with a path":                {[]string{":method", "POST", ":scheme", "https", ":authority", "x/smuggled", ":path", path, "authorization", "Bearer " + adminToken}, "", "400"},
		"a Host that contradicts :authority":       {good("host", "smuggled"), "", "200"},
		"a Host alone":                             {append(without(":authority"), "host", "x"), "", "200"},
		"a length above the body's":                {good("content-length", "50"), "hello", ""},
		"a length below the body's":                {good("content-length", "2"), "hello" + smuggledRequest, ""},
		"a length with a sign":                     {good("content-length", "+5"), "hello", "400 reset"},
		"two lengths":                              {good("content-length", "5", "content-length", "0"), "hello", "400 reset"},
		"our own headers":                          {good("x-sandbox-control-token", "smuggled", "x_sandbox_control_token", "smuggled", "x-remote-user", "smuggled", "x-forwarded-for", "smuggled"), "", "200"},
		"an expectation that there is not":         {good("expect", "smuggled"), "", "417"},
		"two cookies are one":                      {good("cookie", "a=1", "cookie", "b=2"), "", "200"},
		"a trailer announced, named like our own":  {good("trailer", "x-sandbox-control-token"), "hello", "200"},
		"a smuggled request as a body without end": {good(), smuggledRequest, "200"},
	} {
		t.Run(name, func(t *testing.T) {
			ask := func(address string) string {
				conn := dialH2(t, address, 0)
				defer conn.Close()
				id, err := conn.request(c.body == "", c.fields...)
				if err != nil {
					t.Fatal(err)
				}
				if c.body != "" {
					_ = conn.WriteData(id, true, []byte(c.body))
				}
				return conn.answer(id)
			}
			got := ask(strings.TrimPrefix(w.url, "http://"))
			requests, ambiguous := pod.take()
			for _, note := range ambiguous {
				t.Errorf("two readers could disagree about what the pod got: %s", note)
			}
			want := c.want
			if want == "" {
				want = ask(bare.Listener.Addr().String())
			}
			if !slices.Contains(strings.Fields(want), got) {
				t.Errorf("got %s, want %s", got, want)
			}
			if reached := want == "200"; reached != (len(requests) == 1) || len(requests) > 1 {
				t.Errorf("the pod got %d requests: %q", len(requests), requests)
			}
			for _, r := range requests {
				if head := strings.ToLower(r.head); strings.Contains(strings.ReplaceAll(head, "x-forwarded-host: smuggled", ""), "smuggled") {
					t.Errorf("the pod got a smuggled header:\n%s", r.head)
				}
				if c.body != r.body {
					t.Errorf("the body %q became %q", c.body, r.body)
				}
			}
		})
	}
}
