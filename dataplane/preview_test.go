// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	previewUser   = "alice"
	previewDomain = "preview.test:8443"
	proxyURL      = demo + "proxy-url"
)

var (
	previewKey  = bytes.Repeat([]byte{7}, preview.KeyBytes)
	previewHost = demoID.Namespace() + "." + previewDomain
)

func previewSecret(entries map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: placement.PreviewKeysSecret}, Data: entries,
	}
}

// newPreviewWorld is a world with a preview domain, a key, and the user alice, who may do anything
// with the instance.

func newPreviewWorld(t *testing.T, backend http.Handler, changes ...func(*setup)) *world {
	t.Helper()
	changes = append([]func(*setup){func(s *setup) {
		s.provider = append(s.provider, infrastructure(nil, previewDomain))
		s.objects = append(s.objects, previewSecret(map[string][]byte{"k1": previewKey}))
	}}, changes...)
	w := newWorld(t, backend, changes...)
	w.kcp.who.set(adminToken, authenticationv1.UserInfo{Username: previewUser, Groups: []string{"dev"}})
	w.kcp.grant("user:"+previewUser, "*")
	eventually(t, "the keys and the domain are known", func() bool {
		p := w.server.handler.previews
		return p.keys.held.Load() != nil && !p.domain.Load().IsZero() && w.server.bound.Synced()
	})
	return w
}

// link asks for a link and returns the path and query of its URL.

func (w *world) link(body string) string {
	w.t.Helper()
	res, got := w.do(http.MethodPost, proxyURL, adminToken, strings.NewReader(body))
	if res.StatusCode != http.StatusCreated {
		w.t.Fatalf("asking for a link: %d %s", res.StatusCode, got)
	}
	var link preview.Response
	if err := json.Unmarshal([]byte(got), &link); err != nil {
		w.t.Fatal(err)
	}
	u, err := url.Parse(link.URL)
	if err != nil || u.Scheme != "https" || u.Host != previewHost || u.Path != preview.EnterPath {
		w.t.Fatalf("the link is %s (%v)", link.URL, err)
	}
	return u.RequestURI()
}

func onHost(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// navigating makes a request that of a browser's window.

func navigating(r *http.Request) {
	r.Header.Set("Accept", "text/html,*/*")
	r.Header.Set("Sec-Fetch-Site", "none")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
}

// browse sends a request to the demo's preview host with a session.

func (w *world) browse(method, path, session string, change ...func(*http.Request)) (*http.Response, string) {
	w.t.Helper()
	changes := []func(*http.Request){onHost(previewHost)}
	if session != "" {
		changes = append(changes, with("Cookie", preview.CookieName+"="+session))
	}
	return w.do(method, path, "", nil, append(changes, change...)...)
}

// enter opens a link and returns the session.

func (w *world) enter(link string) string {
	w.t.Helper()
	res, body := w.browse(http.MethodGet, link, "", navigating)
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		w.t.Fatalf("entering: %d %s", res.StatusCode, body)
	}
	return res.Cookies()[0].Value
}

// sealed seals claims that differ from those of a good session.

func sealed(t *testing.T, purpose preview.Purpose, host string, change func(*preview.Claims)) string {
	t.Helper()
	keys, err := preview.NewKeys(map[string][]byte{"k1": previewKey})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	claims := &preview.Claims{
		Subject: authenticationv1.UserInfo{Username: previewUser}, Cluster: demoID.Origin, UID: demoID.UID,
		Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners", Namespace: "default", Name: "demo",
		IssuedAt: now.UnixNano(), Expires: now.Add(time.Hour).Unix(), SessionExpires: now.Add(time.Hour).Unix(), Path: "/",
	}
	if change != nil {
		change(claims)
	}
	s, err := keys.Seal(purpose, host, claims)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pod reads what the recorder received.

func pod(t *testing.T, body string) received {
	t.Helper()
	var got received
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("the pod did not answer: %v: %s", err, body)
	}
	return got
}

func TestALinkOpensThePreviewInABrowser(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	link := w.link(`{"path":"/some/page?a=b","expirationSeconds":600}`)

	res, _ := w.browse(http.MethodGet, link, "", navigating)
	if res.StatusCode != http.StatusSeeOther {
		t.Fatalf("got %d", res.StatusCode)
	}
	for name, want := range map[string]string{
		"Location": "/some/page?a=b", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	cookies := res.Cookies()
	if len(cookies) != 1 || cookies[0].Name != preview.CookieName || cookies[0].MaxAge < 590 || cookies[0].MaxAge > 600 {
		t.Fatalf("cookies: %v", res.Header["Set-Cookie"])
	}
	session := cookies[0].Value

	res, body := w.browse(http.MethodGet, "/some/page?a=b", session, navigating,
		with("X-Forwarded-Host", "evil.example"), with("X-Forwarded-Prefix", "/evil"), with("X-Sandbox-Control-Token", "x"),
		func(r *http.Request) { r.Header.Set("Cookie", "own=1; "+r.Header.Get("Cookie")) })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", res.StatusCode, body)
	}
	got := pod(t, body)
	for what, pair := range map[string][2]string{
		"the request": {got.Method + " " + got.URI, "GET /some/page?a=b"}, "Host": {got.Host, headers.PodHost},
		headers.Host: {got.Header.Get(headers.Host), previewHost}, headers.Proto: {got.Header.Get(headers.Proto), "https"},
		"Cookie": {strings.Join(got.Header["Cookie"], " | "), "own=1"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("the pod got %s %q, want %q", what, pair[0], pair[1])
		}
	}
	for _, secret := range []string{session, preview.CookieName, adminToken, controlToken, "evil", headers.Prefix, headers.ControlToken} {
		if strings.Contains(body, secret) {
			t.Errorf("the pod got %q:\n%s", secret, body)
		}
	}
	query, _ := url.ParseQuery(link[strings.IndexByte(link, '?')+1:])
	for _, secret := range []string{session, query.Get(preview.LinkParameter)} {
		if strings.Contains(w.logs.String(), secret) {
			t.Error("a link or a session is in the log")
		}
	}
}

func TestAPreviewHasTheWholeOfItsOriginButTheReservedPrefix(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	session := w.enter(w.link(""))
	for _, path := range []string{"/", "/livez", "/readyz", demo + "log", "/dataplane/clusters/x/templates", "/clusters/x", "//a", "/a%2Fb", "/sandbar/enter"} {
		if res, body := w.browse(http.MethodGet, path, session); res.StatusCode != http.StatusOK || pod(t, body).URI != path {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
	for _, path := range []string{"/.sandbar", "/.sandbar/", "/.sandbar/other", "/%2esandbar/other"} {
		res, body := w.browse(http.MethodGet, path, session)
		wantStatus(t, res, body, http.StatusNotFound)
	}
	res, body := w.browse(http.MethodGet, "/a/%2e%2e/b", session)
	wantStatus(t, res, body, http.StatusBadRequest)
	// Elsewhere the probes are what they are.
	if res, body := w.do(http.MethodGet, "/livez", "", nil); body != "ok\n" {
		t.Errorf("/livez: %d %s", res.StatusCode, body)
	}
}

func TestWhatAPodSaysStaysOnThePreviewsOrigin(t *testing.T) {
	w := newPreviewWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Set-Cookie", "a=1; Domain=preview.test; Path=/app")
		h.Add("Set-Cookie", preview.CookieName+"=evil; Path=/; Secure")
		h.Set("Location", r.URL.Query().Get("to"))
		h.Set("Cache-Control", "public, max-age=60")
		h.Set("Clear-Site-Data", `"cookies"`)
		h.Set("Strict-Transport-Security", "max-age=1; includeSubDomains")
		h.Set("Service-Worker-Allowed", "/")
		h.Set("Origin-Agent-Cluster", "?0")
		w.WriteHeader(http.StatusFound)
	}))
	session := w.enter(w.link(""))
	for to, want := range map[string]string{
		"/login":                               "/login",
		"login":                                "login",
		"http://localhost/login?a=b#c":         "https://" + previewHost + "/login?a=b#c",
		"http://localhost:3000/":               "https://" + previewHost + "/",
		"http://localhost//other.example/x":    "https://" + previewHost + "//other.example/x",
		"http://u:p@localhost/":                "https://" + previewHost + "/",
		"//localhost/x":                        "https://" + previewHost + "/x",
		"https://" + previewHost + "/":         "https://" + previewHost + "/",
		"https://accounts.example/authorize?a": "https://accounts.example/authorize?a",
		"myapp://localhost/callback":           "myapp://localhost/callback",
		"https://sub.localhost/":               "https://sub.localhost/",
	} {
		res, _ := w.browse(http.MethodGet, "/?to="+url.QueryEscape(to), session)
		if got := res.Header.Get("Location"); got != want {
			t.Errorf("a redirect to %s leads to %s, want %s", to, got, want)
		}
		for name, want := range map[string]string{
			"Set-Cookie": "a=1; Path=/app", "Cache-Control": "private, max-age=60", "Clear-Site-Data": "",
			"Strict-Transport-Security": "", "Service-Worker-Allowed": "/", "Origin-Agent-Cluster": "?1",
		} {
			if got := strings.Join(res.Header[name], " | "); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
}

func TestAPersonGetsAPageAndAProgramAStatus(t *testing.T) {
	w := newPreviewWorld(t, recorder(), func(s *setup) { s.status = map[string]any{} })
	session := sealed(t, preview.Session, previewHost, nil)
	for name, c := range map[string]struct {
		session, host string
		code          int
		refresh       bool
	}{
		"no session":       {"", previewHost, 401, false},
		"no such host":     {"", "x." + previewDomain, 404, false},
		"not ready yet":    {session, previewHost, 409, true},
		"a broken session": {"x", previewHost, 401, false},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := w.browse(http.MethodGet, "/", c.session, navigating, onHost(c.host))
			if res.StatusCode != c.code || !strings.HasPrefix(body, "<!doctype html>") || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			if got := res.Header.Get("Refresh") != ""; got != c.refresh {
				t.Errorf("is loaded again: %v", got)
			}
			if name == "not ready yet" && !strings.Contains(body, "<p>The app is starting, or does not stay up: ") {
				t.Errorf("the page does not say what is the matter: %s", body)
			}
			if !strings.Contains(res.Header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Error("the page may load things")
			}
			res, _ = w.browse(http.MethodPost, "/", c.session, navigating, onHost(c.host), func(r *http.Request) { r.Header.Set("Origin", "https://"+c.host) })
			if got := res.Header.Get("Refresh"); got != "" {
				t.Errorf("a form's answer is loaded again after %s s", got)
			}
			res, body = w.browse(http.MethodGet, "/", c.session, onHost(c.host))
			wantStatus(t, res, body, c.code)
		})
	}
}

func TestAPreviewsWebSocketIsForItsOwnPages(t *testing.T) {
	w := newPreviewWorld(t, echoWebSocket())
	session := w.enter(w.link(""))
	open := func(origin string) (*websocket.Conn, *http.Response, error) {
		header := http.Header{"Host": {previewHost}, "Cookie": {preview.CookieName + "=" + session}}
		if origin != "" {
			header.Set("Origin", origin)
		}
		return (&websocket.Dialer{}).DialContext(t.Context(), "ws"+strings.TrimPrefix(w.url, "http")+"/hmr?token=x", header)
	}
	for _, origin := range []string{"", "null", "https://evil.example", "http://" + previewHost, "https://" + previewHost + ".evil.example"} {
		conn, res, err := open(origin)
		if err == nil {
			conn.Close()
			t.Fatalf("opened for origin %q", origin)
		}
		if !errors.Is(err, websocket.ErrBadHandshake) || res.StatusCode != http.StatusForbidden {
			t.Errorf("origin %q: %v", origin, err)
		}
	}
	conn, res, err := open("https://" + previewHost)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := res.Header.Get("X-Sandbox-Got-Token"); got != "" {
		t.Errorf("the app got the control token %q", got)
	}
	// What Action Cable and others compute of X-Forwarded-Proto and Host; the echo's server compares Hosts.
	if got := res.Header["X-Sandbox-Got-Origin"]; !slices.Equal(got, []string{"https://localhost"}) {
		t.Errorf("the app got Origin %q", got)
	}
	wantEcho(t, conn, "hello")
}

// TestAStreamEndsWithItsSession: server-sent events go on for as long as the session does.
func TestAStreamEndsWithItsSession(t *testing.T) {
	w := newPreviewWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	session := sealed(t, preview.Session, previewHost, func(c *preview.Claims) { c.Expires = time.Now().Unix() + 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = previewHost
	req.Header.Set("Cookie", preview.CookieName+"="+session)
	res, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if string(got) != "data: first\n\n" || err == nil {
		t.Errorf("got %q, %v; want the first event and a broken end", got, err)
	}
	eventually(t, "the access line says why", func() bool { return w.lastReason() == refusal.CausePreviewExpired })
}

func TestADomainThatPreviewsShareIsSaid(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	if _, body := w.do(http.MethodGet, "/", "", nil, func(r *http.Request) {
		r.URL, _ = url.Parse(w.metrics + "/metrics")
	}); !strings.Contains(body, "sandbar_dataplane_preview_domain_shared 1") {
		t.Error("the metric does not say so")
	}
	if !strings.Contains(w.logs.String(), "no public suffix") {
		t.Error("the log does not say so")
	}
}
