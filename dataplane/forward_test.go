// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/dataplane/headers"
)

// recorder is a pod that answers what it received.
func recorder() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(received{
			Method: r.Method, URI: r.RequestURI, Host: r.Host, Header: r.Header, Body: string(body),
		})
	})
}

type received struct {
	Method, URI, Host, Body string
	Header                  http.Header
}

func (w *world) received(method, path, body string, change ...func(*http.Request)) received {
	w.t.Helper()
	res, answer := w.do(method, path, adminToken, strings.NewReader(body), change...)
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s: got %d %s", method, path, res.StatusCode, answer)
	}
	var got received
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		w.t.Fatal(err)
	}
	return got
}

func TestEveryPathFormReachesThePod(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.opts.PathPrefix = "/services/providers/infrastructure" })
	for name, c := range map[string]struct{ method, path, want string }{
		"the short form means namespace default":            {"POST", demo + "sync", "/sync"},
		"a namespace can be named":                          {"POST", "/dataplane/clusters/root:acme:dev/namespaces/default/sandboxrunners/demo/sync", "/sync"},
		"a logical cluster name serves as workspace":        {"POST", "/dataplane/clusters/cluster1/sandboxrunners/demo/sync", "/sync"},
		"an escaped colon is a colon":                       {"POST", "/dataplane/clusters/root%3Aacme%3Adev/sandboxrunners/demo/sync", "/sync"},
		"the Kubernetes form":                               {"POST", "/clusters/root:acme:dev/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/demo/sync", "/sync"},
		"the Kubernetes form behind a front proxy":          {"POST", "/services/any/clusters/root:acme:dev/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/demo/sync", "/sync"},
		"the prefix of a hub":                               {"POST", "/services/providers/infrastructure" + demo + "sync", "/sync"},
		"a component's verb":                                {"POST", demo + "components/api/restart", "/api/restart"},
		"a tail is appended":                                {"GET", demo + "log/a/b?tail=5&x=%20", "/logs/a/b?tail=5&x=%20"},
		"a tail keeps its escapes":                          {"GET", demo + "proxy/@scope%2fpkg/a%20b/%C3%A4?q=a%2Fb;c", "/@scope%2fpkg/a%20b/%C3%A4?q=a%2Fb;c"},
		"a tail keeps doubled slashes":                      {"GET", demo + "proxy/a//b/", "/a//b/"},
		"also at its beginning":                             {"GET", demo + "proxy//a.example/b", "//a.example/b"},
		"a tail keeps what net/url would write another way": {"GET", demo + "proxy/a%2Fb|c^[d]", "/a%2Fb|c^[d]"},
		"a query keeps a lone percent sign":                 {"GET", demo + "proxy/x?q=100%&r=%zz;[]|", "/x?q=100%&r=%zz;[]|"},
		"a query keeps a thousand parameters":               {"GET", demo + "proxy/x?" + strings.Repeat("columns[0][data]=1&", 1000), "/x?" + strings.Repeat("columns[0][data]=1&", 1000)},
		"a question mark alone stays":                       {"GET", demo + "proxy/x?", "/x?"},
		"no tail is the endpoint itself":                    {"GET", demo + "proxy", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			raw := func(r *http.Request) { r.URL.Opaque, _, _ = strings.Cut(c.path, "?") } // as it is, and not as net/url writes it
			if got := w.received(c.method, c.path, "", raw); got.URI != c.want || got.Method != c.method {
				t.Errorf("the pod got %s %s, want %s %s", got.Method, got.URI, c.method, c.want)
			}
		})
	}
}

func TestHeadersTowardsThePod(t *testing.T) {
	w := newWorld(t, recorder())
	hostile := func(r *http.Request) {
		for name, value := range map[string]string{
			"X-Sandbox-Control-Token": "forged", "X-Remote-User": "system:admin", "X-Remote-Extra-Scopes": "x",
			"Impersonate-User": "admin", "Impersonate-Extra-A": "b", "X-Forwarded-For": "1.2.3.4", "X-Forwarded-Host": "evil.example",
			"X-Forwarded-Prefix": "/evil", "Forwarded": "for=1.2.3.4", "X-Kedge-Tenant": "root:other", "X-Kedge-User": "mallory",
			"X_Remote_User": "admin", "X-Real-Ip": "1.2.3.4", "Cookie": "hub=session", "Proxy-Authorization": "Basic eA==",
			"Baggage": "user=mallory", "Tracestate": "hub=secret",
			"X-Kept": "yes", "Connection": "X-Hop, x-sandbox-control-token, X-Forwarded-Proto", "X-Hop": "gone", "Keep-Alive": "1",
		} {
			r.Header[name] = []string{value}
		}
	}
	t.Run("a control verb gets the token of the placement and nothing of a proxy", func(t *testing.T) {
		got := w.received("POST", demo+"sync", "body", hostile)
		got.Header.Del("Accept-Encoding")
		got.Header.Del("User-Agent")
		want := http.Header{"X-Sandbox-Control-Token": {controlToken}, "X-Kept": {"yes"}, "Content-Length": {"4"}}
		if diff := cmp.Diff(want, got.Header); diff != "" {
			t.Errorf("headers at the pod (-want +got):\n%s", diff)
		}
		if got.Body != "body" || got.Host != headers.PodHost {
			t.Errorf("got body %q and host %q", got.Body, got.Host)
		}
	})
	t.Run("a preview gets where it is mounted, its cookies and never the token", func(t *testing.T) {
		got := w.received("GET", demo+"proxy/x", "", hostile)
		got.Header.Del("Accept-Encoding")
		got.Header.Del("User-Agent")
		want := http.Header{
			"X-Kept": {"yes"}, "Cookie": {"hub=session"}, "X-Forwarded-Proto": {"http"},
			"X-Forwarded-Host": {strings.TrimPrefix(w.url, "http://")}, "X-Forwarded-Prefix": {demo + "proxy"},
		}
		if diff := cmp.Diff(want, got.Header); diff != "" {
			t.Errorf("headers at the pod (-want +got):\n%s", diff)
		}
	})
	t.Run("no User-Agent of ours is added", func(t *testing.T) {
		got := w.received("GET", demo+"proxy", "", func(r *http.Request) { r.Header.Set("User-Agent", "") })
		if _, ok := got.Header["User-Agent"]; ok {
			t.Errorf("the pod got User-Agent %q", got.Header["User-Agent"])
		}
	})
}

func TestHeadersTowardsTheCaller(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Set-Cookie"] = []string{"a=1; Domain=example.com; Path=/app; HttpOnly", "b=2", "c=3; path=/; domain=.evil", "nonsense"}
		h.Set("Clear-Site-Data", "*")
		h.Set("Strict-Transport-Security", "max-age=1")
		h.Set("Alt-Svc", "h3=evil")
		h.Set("Service-Worker-Allowed", "/")
		for _, name := range []string{"Public-Key-Pins", "Nel", "Report-To", "Audit-Id", headers.ControlToken, "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"} {
			h.Set(name, "1")
		}
		h.Set("Connection", "x-secret-hop")
		h.Set("X-Secret-Hop", "1")
		h.Set("X-Kept", "1")
		if to := r.URL.Query().Get("to"); to != "" {
			h.Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}
	}))
	t.Run("a pod's reach ends at its preview", func(t *testing.T) {
		res, _ := w.do("GET", demo+"proxy/x", adminToken, nil)
		for _, name := range []string{
			"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Service-Worker-Allowed", "X-Secret-Hop", "Public-Key-Pins", "Nel", "Report-To",
			"Audit-Id", headers.ControlToken, "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
		} {
			if res.Header.Get(name) != "" {
				t.Errorf("%s came through", name)
			}
		}
		p := demo + "proxy"
		want := []string{"a=1; HttpOnly; Path=" + p + "/app", "b=2; Path=" + p + "/", "c=3; Path=" + p + "/"}
		if diff := cmp.Diff(want, res.Header["Set-Cookie"]); diff != "" {
			t.Errorf("cookies (-want +got):\n%s", diff)
		}
		if res.Header.Get("X-Kept") != "1" {
			t.Error("an ordinary header was lost")
		}
	})
	t.Run("nor do its trailers reach further", func(t *testing.T) {
		w := newWorld(t, rawAnswer("HTTP/1.1 200 OK\r\nTrailer: Clear-Site-Data, Set-Cookie, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"+
			"2\r\nok\r\n0\r\nClear-Site-Data: *\r\nSet-Cookie: a=1; Domain=example.com\r\nX-Sum: 7\r\n\r\n"))
		res, _ := w.do("GET", demo+"proxy/x", adminToken, nil)
		want := http.Header{"X-Sum": {"7"}, "Set-Cookie": {"a=1; Path=" + demo + "proxy/"}}
		if diff := cmp.Diff(want, res.Trailer); diff != "" {
			t.Errorf("trailers (-want +got):\n%s", diff)
		}
	})
	for name, c := range map[string]struct {
		trailer string
		want    http.Header
	}{
		"a sum that was not announced arrives": {"X-Sum: 1\r\n", http.Header{"X-Sum": {"1"}}},
		"and so do several of one name":        {"X-Sum: 1\r\nGrpc-Status: 0\r\nX-Sum: 2\r\n", http.Header{"X-Sum": {"1", "2"}, "Grpc-Status": {"0"}}},
		"what frames, routes or authenticates does not": {
			"X-Sum: 1\r\nContent-Type: text/html\r\nConnection: x-hop\r\nX-Hop: 1\r\nHost: evil\r\nAuthorization: x\r\nUpgrade: h2c\r\nIf-Match: x\r\n" +
				"Clear-Site-Data: *\r\nTransfer-Encoding: gzip\r\nContent-Length: 9\r\nTrailer: x\r\nX-Accel-Redirect: /\r\n", http.Header{"X-Sum": {"1"}},
		},
	} {
		t.Run("of a trailer "+name, func(t *testing.T) {
			w := newWorld(t, rawAnswer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"+c.trailer+"\r\n"))
			res, body := w.do("GET", demo+"proxy/x", adminToken, nil)
			if diff := cmp.Diff(c.want, res.Trailer); diff != "" || body != "ok" {
				t.Errorf("got %q with trailers (-want +got):\n%s", body, diff)
			}
		})
	}
	t.Run("a control verb sets no cookies", func(t *testing.T) {
		if res, _ := w.do("POST", demo+"sync", adminToken, nil); res.Header.Get("Set-Cookie") != "" {
			t.Error("a cookie came through")
		}
	})
	const page = "Content-Type: text/html\r\nX-Content-Type-Options: sniff\r\nContent-Security-Policy: script-src *\r\nContent-Security-Policy: default-src *\r\n"
	for name, c := range map[string]struct {
		method, path string
		code         int
		upgrade      bool
		want         []string // of both headers
	}{
		"a stream":                     {"GET", "log", 200, false, []string{"nosniff", "sandbox"}},
		"an answer":                    {"POST", "sync", 200, false, []string{"nosniff", "sandbox"}},
		"an error":                     {"POST", "sync", 500, false, []string{"nosniff", "sandbox"}},
		"a component's":                {"POST", "components/api/restart", 200, false, []string{"nosniff", "sandbox"}},
		"an upgrade that is refused":   {"GET", "echo", 409, true, []string{"nosniff", "sandbox"}},
		"the app's page has its own":   {"GET", "proxy", 200, false, []string{"sniff", "script-src *", "default-src *"}},
		"as has its refusal to switch": {"GET", "proxy", 403, true, []string{"sniff", "script-src *", "default-src *"}},
	} {
		t.Run("of a control verb no browser makes a page that acts: "+name, func(t *testing.T) {
			w := newWorld(t, rawAnswer(fmt.Sprintf("HTTP/1.1 %d Code\r\n%sContent-Length: 2\r\n\r\nok", c.code, page)))
			res, body := w.do(c.method, demo+c.path, adminToken, nil, func(r *http.Request) {
				if c.upgrade {
					r.Header = http.Header{
						"Authorization": r.Header["Authorization"], "Connection": {"Upgrade"}, "Upgrade": {"websocket"},
						"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
					}
				}
			})
			got := slices.Concat(res.Header["X-Content-Type-Options"], res.Header["Content-Security-Policy"])
			if diff := cmp.Diff(c.want, got); diff != "" || res.StatusCode != c.code || body != "ok" {
				t.Errorf("got %d %q (-want +got):\n%s", res.StatusCode, body, diff)
			}
		})
	}
	for to, want := range map[string]string{
		"/login?x=1#y":              demo + "proxy/login?x=1#y",
		"http://localhost/a":        demo + "proxy/a",
		demo + "proxy/already":      demo + "proxy/already",
		"next":                      "next",
		"https://elsewhere.test/x":  "https://elsewhere.test/x",
		"//elsewhere.test/x":        "//elsewhere.test/x",
		"http://localhost:3000/a?b": demo + "proxy/a?b",
	} {
		t.Run("a redirect to "+to+" is passed on and not followed", func(t *testing.T) {
			res, _ := w.do("GET", demo+"proxy/x?to="+strings.NewReplacer("#", "%23", "?", "%3F", "&", "%26").Replace(to), adminToken, nil)
			if res.StatusCode != http.StatusFound || res.Header.Get("Location") != want {
				t.Errorf("got %d to %q, want 302 to %q", res.StatusCode, res.Header.Get("Location"), want)
			}
		})
	}
}

func TestAHostilePodIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		pod  http.HandlerFunc
		code int
	}{
		"endless headers are cut": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 200 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1024))
			}
		}, http.StatusBadGateway},
		"a switch of protocols that nobody asked for is refused": {rawAnswer("HTTP/1.1 101 Switching Protocols\r\n\r\n"), http.StatusBadGateway},
		"an answer that is no HTTP is refused":                   {rawAnswer("SSH-2.0-OpenSSH\r\n\r\n"), http.StatusBadGateway},
		"a connection that closes without an answer is refused":  {rawAnswer(""), http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.pod)
			res, body := w.do("GET", demo+"proxy/x", adminToken, nil)
			wantStatus(t, res, body, c.code)
		})
	}
	t.Run("early hints of a pod do not reach the caller", func(t *testing.T) {
		w := newWorld(t, rawAnswer("HTTP/1.1 103 Early Hints\r\nClear-Site-Data: *\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
		conn := w.dial()
		fmt.Fprintf(conn, "GET %sproxy HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", demo, adminToken)
		answer, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 200") || strings.Contains(string(answer), "Clear-Site-Data") {
			t.Errorf("got %q", answer)
		}
	})
}

// rawAnswer is a pod that writes bytes of its own making and closes the connection.
func rawAnswer(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, answer)
	}
}

func TestAStreamArrivesLineByLineAndEndsWithItsCaller(t *testing.T) {
	lines, gone := make(chan string), make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		control := http.NewResponseController(w)
		_ = control.Flush()
		for {
			select {
			case line := <-lines:
				fmt.Fprintln(w, line)
				_ = control.Flush()
			case <-r.Context().Done():
				close(gone)
				return
			}
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.url+demo+"log?follow=true", nil)
	req.Header.Set("Authorization", "Bearer "+adminToken)
	res, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewScanner(res.Body)
	for i := range 3 {
		want := fmt.Sprintf("line %d", i)
		lines <- want
		if !in.Scan() || in.Text() != want {
			t.Fatalf("got %q (%v), want %q", in.Text(), in.Err(), want)
		}
	}
	cancel()
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Fatal("the pod did not learn that the caller has gone")
	}
}

func TestAPodThatDoesNotAnswer(t *testing.T) {
	t.Run("a port that nobody listens on is 502", func(t *testing.T) {
		closed := httptest.NewServer(nil)
		closed.Close()
		w := newWorld(t, nil, func(s *setup) { s.backendAddress = closed.Listener.Addr().String() })
		res, body := w.do("POST", demo+"sync", adminToken, nil)
		wantStatus(t, res, body, http.StatusBadGateway)
		if strings.Contains(body, "127.0.0.1") {
			t.Errorf("the answer tells the pod's address: %s", body)
		}
	})
	t.Run("of an app that may still start it says when to come back, and how not to meet it again", func(t *testing.T) {
		closed := httptest.NewServer(nil)
		closed.Close()
		w := newWorld(t, nil, func(s *setup) { s.backendAddress = closed.Listener.Addr().String() })
		res, body := w.do("GET", demo+"proxy/", adminToken, nil)
		status := wantStatus(t, res, body, http.StatusBadGateway)
		if res.Header.Get("Retry-After") != "2" || !strings.Contains(status.Message, "readinessProbe") {
			t.Errorf("got Retry-After %q and %q", res.Header.Get("Retry-After"), status.Message)
		}
	})
	t.Run("one that hangs is 504, and its body may take longer to arrive", func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-release:
			}
		}), func(s *setup) { s.opts.Limits.ResponseTimeout = 50 * time.Millisecond })
		defer close(release)
		res, body := w.do("POST", demo+"sync", adminToken, strings.NewReader("x"))
		wantStatus(t, res, body, http.StatusGatewayTimeout)
	})
}

// A program may print nothing for long, and the pod then says nothing of its log either.
func TestALogThatHasNothingToSayYetIsNotCut(t *testing.T) {
	heard, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/logs" {
			<-r.Context().Done()
			return
		}
		close(heard)
		<-release
		_, _ = io.WriteString(w, "at last\n")
	}), func(s *setup) { s.opts.Limits.ResponseTimeout = 50 * time.Millisecond })
	told := make(chan string, 1)
	go func() {
		_, body := w.do("GET", demo+"log", adminToken, nil)
		told <- body
	}()
	<-heard
	// What began later and is no stream has run out of time.
	res, body := w.do("GET", demo+"proxy", adminToken, nil)
	wantStatus(t, res, body, http.StatusGatewayTimeout)
	close(release)
	if got := <-told; got != "at last\n" {
		t.Errorf("the log was %q", got)
	}
}

func TestABodyAboveTheLimitIs413(t *testing.T) {
	heard := make(chan string, 10)
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard <- r.URL.RawQuery
		recorder().ServeHTTP(w, r)
	}), func(s *setup) { s.opts.Limits.BodyBytes = 1000 })
	for name, c := range map[string]struct {
		query string
		body  io.Reader
	}{
		"when its length is told":     {"told", strings.NewReader(strings.Repeat("x", 1001))},
		"when its length is not told": {"untold", io.MultiReader(strings.NewReader(strings.Repeat("x", 1001)))},
	} {
		t.Run(name, func(t *testing.T) {
			res, answer := w.do("POST", demo+"sync?"+c.query, adminToken, c.body)
			if status := wantStatus(t, res, answer, http.StatusRequestEntityTooLarge); !strings.Contains(status.Message, "1000 bytes") {
				t.Errorf("the message does not name the limit: %s", status.Message)
			}
		})
	}
	if got := w.received("POST", demo+"sync", strings.Repeat("x", 1000)); len(got.Body) != 1000 {
		t.Errorf("a body at the limit arrived with %d bytes", len(got.Body))
	}
	for len(heard) > 0 {
		if <-heard == "told" {
			t.Error("the pod heard of a body that was known to be too large")
		}
	}
}
