// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
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
		Subject: authenticationv1.UserInfo{Username: previewUser}, Cluster: demoID.Cluster, UID: demoID.UID,
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
		"the request": {got.Method + " " + got.URI, "GET /some/page?a=b"}, "Host": {got.Host, podHost},
		headerHost: {got.Header.Get(headerHost), previewHost}, headerProto: {got.Header.Get(headerProto), "https"},
		"Cookie": {strings.Join(got.Header["Cookie"], " | "), "own=1"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("the pod got %s %q, want %q", what, pair[0], pair[1])
		}
	}
	for _, secret := range []string{session, preview.CookieName, adminToken, controlToken, "evil", headerPrefix, headerControlToken} {
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

func TestWhatOpensNoPreview(t *testing.T) {
	other := placement.ID{Cluster: "cluster1", UID: "uid-other"}
	good := func(t *testing.T) string { return sealed(t, preview.Session, previewHost, nil) }
	link := func(t *testing.T) string { return sealed(t, preview.Link, previewHost, nil) }
	changed := func(change func(*preview.Claims)) func(*testing.T) string {
		return func(t *testing.T) string { return sealed(t, preview.Session, previewHost, change) }
	}
	enter := func(value string) string { return preview.EnterPath + "?" + preview.LinkParameter + "=" + value }
	for name, c := range map[string]struct {
		session func(t *testing.T) string
		path    func(t *testing.T) string
		change  func(*http.Request)
		prepare func(w *world)
		code    int
		reason  string
	}{
		"a good session, to compare": {session: good, code: 200},
		"no session":                 {code: 401, reason: causeNoIdentity},
		"a token":                    {change: with("Authorization", "Bearer "+adminToken), code: 401, reason: causeNoIdentity},
		"a link as a session":        {session: link, code: 401, reason: causeBadIdentity},
		"a session as a link":        {path: func(t *testing.T) string { return enter(good(t)) }, code: 401, reason: causeBadIdentity},
		"no link":                    {path: func(*testing.T) string { return preview.EnterPath }, code: 401, reason: causeBadIdentity},
		"two links":                  {path: func(t *testing.T) string { return enter(link(t)) + "&" + preview.LinkParameter + "=x" }, code: 401, reason: causeBadIdentity},
		"a link by POST":             {path: func(t *testing.T) string { return enter(link(t)) }, change: func(r *http.Request) { r.Method = http.MethodPost }, code: 405, reason: causeMethod},
		"a link in an image of another page": {path: func(t *testing.T) string { return enter(link(t)) }, change: func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Mode", "no-cors")
			r.Header.Set("Sec-Fetch-Dest", "image")
		}, code: 403, reason: causePreviewOrigin},
		"a link that has expired": {path: func(t *testing.T) string {
			return enter(sealed(t, preview.Link, previewHost, func(c *preview.Claims) { c.Expires = time.Now().Unix() - 1 }))
		}, code: 401, reason: causePreviewExpired},
		"a session of another host": {session: func(t *testing.T) string {
			return sealed(t, preview.Session, other.Namespace()+"."+previewDomain, nil)
		}, code: 401, reason: causeBadIdentity},
		"a session of a component's host":       {session: func(t *testing.T) string { return sealed(t, preview.Session, "api--"+previewHost, nil) }, code: 401, reason: causeBadIdentity},
		"a session for another instance":        {session: changed(func(c *preview.Claims) { c.UID = other.UID }), code: 401, reason: causeBadIdentity},
		"a session for another workspace":       {session: changed(func(c *preview.Claims) { c.Cluster = "cluster2" }), code: 401, reason: causeBadIdentity},
		"a session for another component":       {session: changed(func(c *preview.Claims) { c.Component = "api" }), code: 401, reason: causeBadIdentity},
		"a session for another name":            {session: changed(func(c *preview.Claims) { c.Name = "other" }), code: 404, reason: causeNoInstance},
		"a session for a kind without":          {session: changed(func(c *preview.Claims) { c.Resource = "others" }), code: 404, reason: causeNoPreview},
		"a session that has expired":            {session: changed(func(c *preview.Claims) { c.Expires = time.Now().Unix() - 1 }), code: 401, reason: causePreviewExpired},
		"a session issued in the future":        {session: changed(func(c *preview.Claims) { c.IssuedAt = time.Now().Add(time.Hour).UnixNano() }), code: 401, reason: causeBadIdentity},
		"a session of a subject without rights": {session: changed(func(c *preview.Claims) { c.Subject.Username = "mallory" }), code: 403, reason: causeDenied},
		"a session with a byte changed": {session: func(t *testing.T) string {
			s := good(t)
			return s[:len(s)-2] + map[bool]string{true: "A", false: "B"}[s[len(s)-2] != 'A'] + s[len(s)-1:]
		}, code: 401, reason: causeBadIdentity},
		"a session whose key is gone": {session: good, prepare: func(w *world) {
			w.replaceKeys(map[string][]byte{"k2": previewKey})
		}, code: 401, reason: causeBadIdentity},
		"a session whose key is no longer the newest": {session: good, prepare: func(w *world) {
			w.replaceKeys(map[string][]byte{"k1": previewKey, "k2": bytes.Repeat([]byte{9}, preview.KeyBytes)})
		}, code: 200},
		"a session from before a revocation": {session: good, prepare: func(w *world) { w.annotate(time.Now().Add(time.Minute).Format(time.RFC3339Nano)) }, code: 401, reason: causePreviewRevoked},
		"a link from before a revocation": {path: func(t *testing.T) string { return enter(link(t)) }, prepare: func(w *world) {
			w.annotate(time.Now().Add(time.Minute).Format(time.RFC3339Nano))
		}, code: 401, reason: causePreviewRevoked},
		"a session from after a revocation":         {session: good, prepare: func(w *world) { w.annotate(time.Now().Add(-time.Minute).Format(time.RFC3339)) }, code: 200},
		"a revocation that cannot be read":          {session: good, prepare: func(w *world) { w.annotate("soon") }, code: 401, reason: causePreviewRevoked},
		"a subject that may not use proxy":          {session: good, prepare: func(w *world) { w.kcp.grant("user:"+previewUser, "get sandboxrunners") }, code: 403, reason: causeDenied},
		"a subject that may not read the instance":  {session: good, prepare: func(w *world) { w.kcp.grant("user:"+previewUser, "get sandboxrunners/proxy") }, code: 403, reason: causeDenied},
		"a subject that may only read, and deletes": {session: good, change: func(r *http.Request) { r.Method = http.MethodDelete; r.Header.Set("Sec-Fetch-Site", "same-origin") }, prepare: func(w *world) { w.kcp.grant("user:"+previewUser, "get sandboxrunners/proxy", "get sandboxrunners") }, code: 403, reason: causeDenied},
		"a fetch of another page":                   {session: good, change: with("Sec-Fetch-Site", "same-site"), code: 403, reason: causePreviewOrigin},
		"an Origin of another page":                 {session: good, change: with("Origin", "https://"+other.Namespace()+"."+previewDomain), code: 403, reason: causePreviewOrigin},
		"a workspace that took the claim back":      {session: good, prepare: func(w *world) { w.disclaim() }, code: 403, reason: causeClaim},
		"a host that is no preview's":               {session: good, change: onHost("www." + previewDomain), code: 404, reason: causeNoPreview},
		"the host with a dot behind":                {session: good, change: onHost(demoID.Namespace() + ".preview.test."), code: 404, reason: causeNoPreview},
		"the host of an instance that is not there": {session: good, change: onHost(other.Namespace() + "." + previewDomain), code: 401, reason: causeBadIdentity},
		"the host in upper case":                    {session: good, change: onHost(strings.ToUpper(previewHost)), code: 200},
		"the host without the port":                 {session: good, change: onHost(demoID.Namespace() + ".preview.test"), code: 200},
		"a path of the data plane on no such host": {path: func(*testing.T) string { return demo + "proxy/" }, change: func(r *http.Request) {
			r.Host = "x." + previewDomain
			r.Header.Set("Authorization", "Bearer "+adminToken)
		}, code: 404, reason: causeNoPreview},
		"a session on a host that is not a preview's": {session: good, change: onHost("preview.test"), code: 400, reason: causeMalformed},
		"a session beside one that is none": {session: good, change: func(r *http.Request) {
			r.Header.Set("Cookie", preview.CookieName+"=junk; "+r.Header.Get("Cookie"))
		}, code: 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPreviewWorld(t, recorder())
			session, path := "", "/"
			if c.session != nil {
				session = c.session(t)
			}
			if c.path != nil {
				path = c.path(t)
			}
			if c.prepare != nil {
				c.prepare(w)
			}
			change := c.change
			if change == nil {
				change = func(*http.Request) {}
			}
			res, body := w.browse(http.MethodGet, path, session, change)
			if res.StatusCode != c.code {
				t.Fatalf("got %d %s, want %d", res.StatusCode, body, c.code)
			}
			if c.code >= 400 {
				wantStatus(t, res, body, c.code)
			}
			if got := w.lastReason(); got != c.reason {
				t.Errorf("reason %q, want %q", got, c.reason)
			}
			if c.code == 401 && !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), previewChallenge) {
				t.Errorf("WWW-Authenticate is %q", res.Header.Get("WWW-Authenticate"))
			}
		})
	}
}

// disclaim takes the claim back in the workspace's binding, and waits until the data plane knows.
func (w *world) disclaim() {
	w.t.Helper()
	eventually(w.t, "the bindings are watched", func() (watched bool) {
		w.kcp.set(func() { watched = len(w.kcp.virtual.watchers) > 0 })
		return watched
	})
	w.kcp.bind("cluster1", fakeBinding{path: "root:acme:dev", phase: "Bound"})
	eventually(w.t, "the data plane knows", func() bool {
		got := w.server.handler.tenant.Review(w.t.Context(), tenant.Subject(authenticationv1.UserInfo{Username: "x"}), "cluster1",
			authorizationv1.SelfSubjectAccessReviewSpec{})
		return got.Outcome == tenant.ClaimNotAccepted
	})
}

func (w *world) replaceKeys(entries map[string][]byte) {
	w.t.Helper()
	before := w.server.handler.previews.keys.held.Load()
	if _, err := w.runtime.CoreV1().Secrets(placement.SystemNamespace).Update(w.t.Context(), previewSecret(entries), metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the data plane has the keys", func() bool { return w.server.handler.previews.keys.held.Load() != before })
}

// annotate writes the annotation that revokes previews.
func (w *world) annotate(value string) {
	w.kcp.set(func() {
		w.kcp.instances["cluster1/default/sandboxrunners/demo"].Annotations[placement.AnnotationPreviewsNotBefore] = value
	})
}

// TestASessionOfAnInstanceThatIsGoneOpensNoOther: the name is used again, and the browser still
// has the cookie.
func TestASessionOfAnInstanceThatIsGoneOpensNoOther(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	session := w.enter(w.link(""))
	if res, body := w.browse(http.MethodGet, "/", session); res.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", res.StatusCode, body)
	}
	heir := placement.ID{Cluster: "cluster1", UID: "uid-heir"}
	w.kcp.addInstance("cluster1", "default", "demo", heir.UID)
	w.newPlacement(heir, "demo", "127.0.0.1:1")
	res, body := w.browse(http.MethodGet, "/", session)
	wantStatus(t, res, body, http.StatusNotFound)
	if got := w.lastReason(); got != causeNotPlaced && got != causeAmbiguous {
		t.Errorf("reason %q", got)
	}
}

// TestWhoMayNotReadTheInstanceHasNoPreview: revocation is written on the instance, so that a
// session could not be revoked for a subject that may use the verb alone.
func TestWhoMayNotReadTheInstanceHasNoPreview(t *testing.T) {
	w := newPreviewWorld(t, recorder(), func(s *setup) { s.opts.AuthorizationMode = AuthorizeSubresource })
	session := sealed(t, preview.Session, previewHost, nil)
	if res, body := w.browse(http.MethodGet, "/", session); res.StatusCode != http.StatusOK {
		t.Fatalf("who may read it: %d %s", res.StatusCode, body)
	}
	w.kcp.grant("user:"+previewUser, "get sandboxrunners/proxy")
	w.server.handler.authorizer.answers.Purge()
	res, body := w.browse(http.MethodGet, "/", session)
	wantStatus(t, res, body, http.StatusForbidden)
}

func TestALostRightEndsAPreviewWhenTheAnswerIsTooOld(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	session := w.enter(w.link(""))
	w.kcp.grant("user:" + previewUser)
	if res, body := w.browse(http.MethodGet, "/", session); res.StatusCode != http.StatusOK {
		t.Fatalf("with an answer of kcp that is still good: %d %s", res.StatusCode, body)
	}
	w.server.handler.authorizer.answers.Purge() // as time does
	res, body := w.browse(http.MethodGet, "/", session)
	wantStatus(t, res, body, http.StatusForbidden)
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
			if !strings.Contains(res.Header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Error("the page may load things")
			}
			res, body = w.browse(http.MethodGet, "/", c.session, onHost(c.host))
			wantStatus(t, res, body, c.code)
		})
	}
}

func TestWhoGetsNoLink(t *testing.T) {
	const limited = "token-of-somebody-5d2a"
	identify := func(w *world, user authenticationv1.UserInfo, own, subject []string) {
		w.kcp.grant(limited, own...)
		w.kcp.who.set(limited, user)
		w.kcp.grant("user:"+user.Username, subject...)
	}
	bob := authenticationv1.UserInfo{Username: "bob"}
	all := []string{"*"}
	huge := authenticationv1.UserInfo{Username: "bob"}
	for range 200 {
		huge.Groups = append(huge.Groups, "a-group-with-a-rather-long-name")
	}
	for name, c := range map[string]struct {
		method, path, body string
		token              string
		prepare            func(w *world)
		setup              func(s *setup)
		code               int
		want               string
	}{
		"somebody without identity":  {token: "-", code: 401, want: "bearer token"},
		"a caller without the right": {prepare: func(w *world) { identify(w, bob, []string{"get sandboxrunners", "get sandboxrunners/proxy"}, all) }, code: 403, want: "access denied"},
		"a caller who may not see it": {prepare: func(w *world) {
			identify(w, bob, []string{"get sandboxrunners", "create sandboxrunners/proxy-url"}, nil)
		}, code: 403, want: "get on sandboxrunners and on sandboxrunners/proxy"},
		"a workspace that has not accepted the claim": {prepare: func(w *world) {
			identify(w, bob, all, all)
			w.disclaim()
		}, code: 403, want: "permission claim"},
		"an identity larger than a cookie":  {prepare: func(w *world) { identify(w, huge, all, all) }, code: 422, want: "3800 bytes"},
		"a session that is too long":        {body: `{"expirationSeconds":43201}`, token: adminToken, code: 400, want: "between 60 and 43200"},
		"a path to another host":            {body: `{"path":"//evil.example/"}`, token: adminToken, code: 400, want: "path must begin with one slash"},
		"a body that is too large":          {body: strings.Repeat(" ", preview.MaxRequestBytes+1), token: adminToken, code: 400, want: "4096 bytes"},
		"another method":                    {method: http.MethodPut, token: adminToken, code: 405, want: "DELETE, POST"},
		"a path behind the verb":            {path: proxyURL + "/x", token: adminToken, code: 404, want: "no such instance or verb"},
		"a component without a preview":     {path: demo + "components/api/proxy-url", token: adminToken, code: 404, want: "no such instance or verb"},
		"an instance that is not there":     {path: strings.Replace(proxyURL, "/demo/", "/none/", 1), token: adminToken, code: 404, want: "no such instance or verb"},
		"no preview domain":                 {setup: func(s *setup) { s.provider = nil }, token: adminToken, code: 409, want: "spec.dataPlane.previewDomain"},
		"no key":                            {setup: func(s *setup) { s.objects = nil }, token: adminToken, code: 503, want: "sandbar-system/sandbar-preview-keys"},
		"previews forbidden for the future": {prepare: func(w *world) { identify(w, bob, all, all); w.annotate("2999-01-01T00:00:00Z") }, code: 401, want: "have been ended"},
	} {
		t.Run(name, func(t *testing.T) {
			var w *world
			if c.setup != nil {
				w = newWorld(t, recorder(), func(s *setup) {
					s.provider = append(s.provider, infrastructure(nil, previewDomain))
					s.objects = append(s.objects, previewSecret(map[string][]byte{"k1": previewKey}))
					c.setup(s)
				})
				eventually(t, "the bindings are known", w.server.bound.Synced)
				w.kcp.who.set(adminToken, authenticationv1.UserInfo{Username: previewUser})
				w.kcp.grant("user:"+previewUser, "*")
			} else {
				w = newPreviewWorld(t, recorder())
			}
			if c.prepare != nil {
				c.prepare(w)
			}
			method, path, token := http.MethodPost, proxyURL, limited
			if c.method != "" {
				method = c.method
			}
			if c.path != "" {
				path = c.path
			}
			if c.token != "" {
				token = strings.TrimPrefix(c.token, "-")
			}
			res, body := w.do(method, path, token, strings.NewReader(c.body))
			if status := wantStatus(t, res, body, c.code); !strings.Contains(status.Message, c.want) {
				t.Errorf("the message is %q, want %q in it", status.Message, c.want)
			}
		})
	}
}

func TestPreviewsAreRevokedAsTheCaller(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	const patcher, reader = "token-of-a-patcher-1b", "token-of-a-reader-2c"
	w.kcp.grant(patcher, "get sandboxrunners", "delete sandboxrunners/proxy-url", "patch sandboxrunners")
	w.kcp.grant(reader, "get sandboxrunners", "delete sandboxrunners/proxy-url")
	session, link := w.enter(w.link("")), w.link("")

	res, body := w.do(http.MethodDelete, proxyURL, reader, nil)
	if status := wantStatus(t, res, body, http.StatusForbidden); !strings.Contains(status.Message, "patch sandboxrunners") {
		t.Errorf("the message is %q", status.Message)
	}
	if res, _ := w.browse(http.MethodGet, "/", session); res.StatusCode != http.StatusOK {
		t.Fatalf("who may not revoke has: %d", res.StatusCode)
	}

	res, body = w.do(http.MethodDelete, proxyURL, patcher, nil)
	if res.StatusCode != http.StatusOK || !strings.Contains(body, `"revokedBefore"`) {
		t.Fatalf("revoking: %d %s", res.StatusCode, body)
	}
	w.server.handler.authorizer.answers.Purge() // as time does
	for what, path := range map[string]string{"session": "/", "link": link} {
		res, body := w.browse(http.MethodGet, path, session)
		wantStatus(t, res, body, http.StatusUnauthorized)
		if got := w.lastReason(); got != causePreviewRevoked {
			t.Errorf("%s: reason %q", what, got)
		}
	}
	if res, body := w.browse(http.MethodGet, "/", w.enter(w.link(""))); res.StatusCode != http.StatusOK {
		t.Errorf("a new link: %d %s", res.StatusCode, body)
	}

	// A revocation for the future is not taken back by another one.
	w.annotate("2999-01-01T00:00:00Z")
	w.server.handler.authorizer.answers.Purge()
	if res, body := w.do(http.MethodDelete, proxyURL, patcher, nil); res.StatusCode != http.StatusOK || !strings.Contains(body, "2999") {
		t.Errorf("revoking again: %d %s", res.StatusCode, body)
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
	if got := res.Header.Get("X-Got-Token"); got != "" {
		t.Errorf("the app got the control token %q", got)
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
	eventually(t, "the access line says why", func() bool { return w.lastReason() == causePreviewExpired })
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
