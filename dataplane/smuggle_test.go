// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// recordingPod keeps the bytes that reach a pod and answers each request it can find in them.
type recordingPod struct {
	mu   sync.Mutex
	raw  strings.Builder
	asks int
}

func (p *recordingPod) listener(t *testing.T) net.Listener {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		p.mu.Lock()
		p.asks++
		p.mu.Unlock()
	}))
	server.Listener = teeListener{server.Listener, p}
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener
}

type teeListener struct {
	net.Listener
	pod *recordingPod
}

func (l teeListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return teeConn{c, l.pod}, nil
}

type teeConn struct {
	net.Conn
	pod *recordingPod
}

func (c teeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.pod.mu.Lock()
	c.pod.raw.Write(p[:n])
	c.pod.mu.Unlock()
	return n, err
}

// One request in, at most one out, and never with a header that the caller smuggled. Each case
// is a request that parsers have been known to disagree about; what we send on must not hold
// "smuggled", which only a second reading of the same bytes would make a request or a header.
func TestAmbiguousRequestsAreNotSmuggled(t *testing.T) {
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\nX-Smuggled: 1\r\n\r\n"
	for name, request := range map[string]string{
		"CL.CL":                             "Content-Length: 0\r\nContent-Length: %d\r\n\r\n" + smuggled,
		"CL.CL in one line":                 "Content-Length: 0, %d\r\n\r\n" + smuggled,
		"CL.TE":                             "Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"TE.CL":                             "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + smuggled,
		"TE.TE":                             "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + smuggled,
		"TE with a space":                   "Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n" + smuggled,
		"TE with a tab":                     "Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + smuggled,
		"TE xchunked":                       "Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n" + smuggled,
		"TE chunked twice in one line":      "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"TE in a folded line":               "X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + smuggled,
		"a bare LF in a chunk's size":       "Transfer-Encoding: chunked\r\n\r\n0\n\n" + smuggled,
		"a chunk extension with a new line": "Transfer-Encoding: chunked\r\n\r\n0;a=\nb\r\n\r\n" + smuggled,
		"a negative length":                 "Content-Length: -1\r\n\r\n" + smuggled,
		"a length with a plus":              "Content-Length: +0\r\n\r\n" + smuggled,
		"a length in hexadecimal":           "Content-Length: 0x0\r\n\r\n" + smuggled,
		"a header with a bare CR":           "X-A: b\rX-Smuggled: 1\r\nContent-Length: 0\r\n\r\n",
		"a header with NUL":                 "X-A: b\x00X-Smuggled: 1\r\nContent-Length: 0\r\n\r\n",
		"a header name with a space":        "X-Smuggled X: 1\r\nContent-Length: 0\r\n\r\n",
		"two Hosts":                         "Host: smuggled\r\nContent-Length: 0\r\n\r\n",
		"a GET with a body":                 "Content-Length: %d\r\n\r\n" + smuggled,
	} {
		t.Run(name, func(t *testing.T) {
			pod := &recordingPod{}
			w := newWorld(t, nil, func(s *setup) { s.backendAddress = pod.listener(t).Addr().String() })
			if strings.Contains(request, "%d") {
				request = fmt.Sprintf(request, len(smuggled))
			}
			conn := w.dial()
			fmt.Fprintf(conn, "POST %sproxy/outer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s", demo, adminToken, request)
			_ = conn.CloseWrite()
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			_, _ = io.Copy(io.Discard, conn)
			pod.mu.Lock()
			defer pod.mu.Unlock()
			raw := pod.raw.String()
			head, _, _ := strings.Cut(raw, "\r\n\r\n")
			if pod.asks > 1 || strings.Count(raw, " HTTP/1.1\r\n")-strings.Count(raw, "GET /smuggled HTTP/1.1\r\n") > 1 {
				t.Errorf("the pod took %d requests from one:\n%s", pod.asks, raw)
			}
			if strings.Contains(strings.ToLower(head), "smuggled") {
				t.Errorf("the pod got a smuggled header:\n%s", head)
			}
			if pod.asks == 1 && !strings.HasPrefix(raw, "POST /outer HTTP/1.1\r\n") {
				t.Errorf("the pod took another request than was sent:\n%s", raw)
			}
		})
	}
}
