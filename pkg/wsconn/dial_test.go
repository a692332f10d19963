// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wsconn

import (
	"bufio"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func accept(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, err := Accept(w, r, 1<<10)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Read(context.Background())
		_ = conn.CloseNow()
	}
}

func TestTheHTTPClientsTrustHoldsForWebSockets(t *testing.T) {
	server := httptest.NewTLSServer(accept(t))
	defer server.Close()
	server.Config.ErrorLog = nil
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := Dial(t.Context(), server.Client(), to, nil, 1<<10)
	if err != nil {
		t.Fatalf("with the server's CA: %v", err)
	}
	_ = conn.CloseNow()
	var untrusted *tls.CertificateVerificationError
	if _, _, err := Dial(t.Context(), &http.Client{Transport: &http.Transport{}}, to, nil, 1<<10); !errors.As(err, &untrusted) {
		t.Errorf("with the system's CAs: %v", err)
	}
	other := server.Client().Transport.(*http.Transport).Clone()
	other.TLSClientConfig.ServerName = "other.test"
	if _, _, err := Dial(t.Context(), &http.Client{Transport: other}, to, nil, 1<<10); !errors.As(err, &untrusted) {
		t.Errorf("with another name: %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTheHTTPClientsCredentialAndProxyHoldForWebSockets(t *testing.T) {
	asked := make(chan *http.Request, 1)
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Clone(context.Background())
		accept(t)(w, r)
	})
	pool := &http.Transport{Proxy: http.ProxyURL(proxy)}
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("User-Agent") != "" {
			t.Errorf("the user agent is set to %q before the client can", r.UserAgent())
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer token")
		return pool.RoundTrip(r)
	})}
	to := &url.URL{Scheme: "http", Host: "data-plane.test", Path: "/a b", RawQuery: "q=1"}
	conn, _, err := Dial(t.Context(), client, to, http.Header{"X-Own": {"1"}}, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.CloseNow()
	r := <-asked
	if r.Host != "data-plane.test" || r.URL.EscapedPath() != "/a%20b" || r.URL.RawQuery != "q=1" {
		t.Errorf("the proxy was asked for %s at %s", r.URL, r.Host)
	}
	if r.Header.Get("Authorization") != "Bearer token" || r.Header.Get("X-Own") != "1" || r.Header.Get("Sec-Websocket-Extensions") != "" {
		t.Errorf("the header is %v", r.Header)
	}
}

func TestAnAnswerThatIsNoWebSocketIsReturned(t *testing.T) {
	for name, c := range map[string]struct {
		code, size, want int
	}{
		"small":      {403, 5000, 5000},
		"large":      {500, maxAnswer + 1, maxAnswer},
		"a redirect": {302, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, strings.Repeat("x", c.size))
			})
			client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			conn, res, err := Dial(t.Context(), client, to, nil, 1<<10)
			if err == nil || conn != nil || res == nil || res.StatusCode != c.code || res.Header.Get("Retry-After") != "7" {
				t.Fatalf("%v, %v", res, err)
			}
			if p, err := io.ReadAll(res.Body); err != nil || len(p) != c.want {
				t.Errorf("%d bytes of the body, %v; want %d", len(p), err, c.want)
			}
		})
	}
}

func TestTheEndOfAContextEndsAHandshake(t *testing.T) {
	release := make(chan struct{})
	asked := make(chan struct{})
	to := serve(t, func(http.ResponseWriter, *http.Request) { close(asked); <-release })
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, res, err := Dial(ctx, http.DefaultClient, to, nil, 1<<10); !errors.Is(err, context.Canceled) || res != nil {
		t.Errorf("got %v, %v", res, err)
	}
}

func TestTheEndOfAHandshakesContextLeavesTheConnection(t *testing.T) {
	to := serve(t, accept(t))
	ctx, cancel := context.WithCancel(t.Context())
	conn, _, err := Dial(ctx, http.DefaultClient, to, nil, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	cancel()
	if err := conn.Write(t.Context(), []byte("x")); err != nil {
		t.Error(err)
	}
}

func TestAServerThatBreaksTheHandshakesRulesIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ lines, want string }{
		"an extension, unasked":   {"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n", "extension"},
		"a subprotocol, unasked":  {"Sec-WebSocket-Protocol: other\r\n", "not offered"},
		"another key's signature": {"", "bad handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan error, 1)
			to := serve(t, func(w http.ResponseWriter, r *http.Request) {
				key := r.Header.Get("Sec-Websocket-Key")
				if c.lines == "" {
					key = "another"
				}
				sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "+
					base64.StdEncoding.EncodeToString(sum[:])+"\r\n"+c.lines+"\r\n")
				_ = conn.SetReadDeadline(time.Now().Add(late))
				_, err = bufio.NewReader(rw).ReadByte()
				closed <- err
			})
			if _, _, err := Dial(t.Context(), http.DefaultClient, to, nil, 1<<10, "mine"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err := <-closed; !errors.Is(err, io.EOF) {
				t.Errorf("the connection was left open: %v", err)
			}
		})
	}
}
