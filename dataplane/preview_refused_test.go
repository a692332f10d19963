// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

func TestWhatOpensNoPreview(t *testing.T) {
	other := placement.ID{Origin: "cluster1", UID: "uid-other"}
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
		"no session":                 {code: 401, reason: refusal.CauseNoIdentity},
		"a token":                    {change: with("Authorization", "Bearer "+adminToken), code: 401, reason: refusal.CauseNoIdentity},
		"a link as a session":        {session: link, code: 401, reason: refusal.CauseBadIdentity},
		"a session as a link":        {path: func(t *testing.T) string { return enter(good(t)) }, code: 401, reason: refusal.CauseBadIdentity},
		"no link":                    {path: func(*testing.T) string { return preview.EnterPath }, code: 401, reason: refusal.CauseBadIdentity},
		"two links":                  {path: func(t *testing.T) string { return enter(link(t)) + "&" + preview.LinkParameter + "=x" }, code: 401, reason: refusal.CauseBadIdentity},
		"a link by POST":             {path: func(t *testing.T) string { return enter(link(t)) }, change: func(r *http.Request) { r.Method = http.MethodPost }, code: 405, reason: refusal.CauseMethod},
		"a link in an image of another page": {path: func(t *testing.T) string { return enter(link(t)) }, change: func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Mode", "no-cors")
			r.Header.Set("Sec-Fetch-Dest", "image")
		}, code: 403, reason: refusal.CausePreviewOrigin},
		"a link that has expired": {path: func(t *testing.T) string {
			return enter(sealed(t, preview.Link, previewHost, func(c *preview.Claims) { c.Expires = time.Now().Unix() - 1 }))
		}, code: 401, reason: refusal.CausePreviewExpired},
		"a session of another host": {session: func(t *testing.T) string {
			return sealed(t, preview.Session, other.Namespace()+"."+previewDomain, nil)
		}, code: 401, reason: refusal.CauseBadIdentity},
		"a session of a component's host":       {session: func(t *testing.T) string { return sealed(t, preview.Session, "api--"+previewHost, nil) }, code: 401, reason: refusal.CauseBadIdentity},
		"a session for another instance":        {session: changed(func(c *preview.Claims) { c.UID = other.UID }), code: 401, reason: refusal.CauseBadIdentity},
		"a session for another workspace":       {session: changed(func(c *preview.Claims) { c.Cluster = "cluster2" }), code: 401, reason: refusal.CauseBadIdentity},
		"a session for another component":       {session: changed(func(c *preview.Claims) { c.Component = "api" }), code: 401, reason: refusal.CauseBadIdentity},
		"a session for another name":            {session: changed(func(c *preview.Claims) { c.Name = "other" }), code: 404, reason: refusal.CauseNoInstance},
		"a session for a kind without":          {session: changed(func(c *preview.Claims) { c.Resource = "others" }), code: 404, reason: refusal.CauseNoPreview},
		"a session that has expired":            {session: changed(func(c *preview.Claims) { c.Expires = time.Now().Unix() - 1 }), code: 401, reason: refusal.CausePreviewExpired},
		"a session issued in the future":        {session: changed(func(c *preview.Claims) { c.IssuedAt = time.Now().Add(time.Hour).UnixNano() }), code: 401, reason: refusal.CauseBadIdentity},
		"a session of a subject without rights": {session: changed(func(c *preview.Claims) { c.Subject.Username = "mallory" }), code: 403, reason: refusal.CauseDenied},
		"a session with a byte changed": {session: func(t *testing.T) string {
			s := good(t)
			return s[:len(s)-2] + map[bool]string{true: "A", false: "B"}[s[len(s)-2] != 'A'] + s[len(s)-1:]
		}, code: 401, reason: refusal.CauseBadIdentity},
		"a session whose key is gone": {session: good, prepare: func(w *world) {
			w.replaceKeys(map[string][]byte{"k2": previewKey})
		}, code: 401, reason: refusal.CauseBadIdentity},
		"a session whose key is no longer the newest": {session: good, prepare: func(w *world) {
			w.replaceKeys(map[string][]byte{"k1": previewKey, "k2": bytes.Repeat([]byte{9}, preview.KeyBytes)})
		}, code: 200},
		"a session from before a revocation": {session: good, prepare: func(w *world) { w.annotate(time.Now().Add(time.Minute).Format(time.RFC3339Nano)) }, code: 401, reason: refusal.CausePreviewRevoked},
		"a link from before a revocation": {path: func(t *testing.T) string { return enter(link(t)) }, prepare: func(w *world) {
			w.annotate(time.Now().Add(time.Minute).Format(time.RFC3339Nano))
		}, code: 401, reason: refusal.CausePreviewRevoked},
		"a session from after a revocation":         {session: good, prepare: func(w *world) { w.annotate(time.Now().Add(-time.Minute).Format(time.RFC3339)) }, code: 200},
		"a revocation that cannot be read":          {session: good, prepare: func(w *world) { w.annotate("soon") }, code: 401, reason: refusal.CausePreviewRevoked},
		"a subject that may not use proxy":          {session: good, prepare: func(w *world) { w.kcp.grant("user:"+previewUser, "get sandboxrunners") }, code: 403, reason: refusal.CauseDenied},
		"a subject that may not read the instance":  {session: good, prepare: func(w *world) { w.kcp.grant("user:"+previewUser, "get sandboxrunners/proxy") }, code: 403, reason: refusal.CauseDenied},
		"a subject that may only read, and deletes": {session: good, change: func(r *http.Request) { r.Method = http.MethodDelete; r.Header.Set("Sec-Fetch-Site", "same-origin") }, prepare: func(w *world) { w.kcp.grant("user:"+previewUser, "get sandboxrunners/proxy", "get sandboxrunners") }, code: 403, reason: refusal.CauseDenied},
		"a fetch of another page":                   {session: good, change: with("Sec-Fetch-Site", "same-site"), code: 403, reason: refusal.CausePreviewOrigin},
		"an Origin of another page":                 {session: good, change: with("Origin", "https://"+other.Namespace()+"."+previewDomain), code: 403, reason: refusal.CausePreviewOrigin},
		"a workspace that took the claim back":      {session: good, prepare: func(w *world) { w.disclaim() }, code: 403, reason: refusal.CauseClaim},
		"a host that is no preview's":               {session: good, change: onHost("www." + previewDomain), code: 404, reason: refusal.CauseNoPreview},
		"the host with a dot behind":                {session: good, change: onHost(demoID.Namespace() + ".preview.test."), code: 404, reason: refusal.CauseNoPreview},
		"the host of an instance that is not there": {session: good, change: onHost(other.Namespace() + "." + previewDomain), code: 401, reason: refusal.CauseBadIdentity},
		"the host in upper case":                    {session: good, change: onHost(strings.ToUpper(previewHost)), code: 200},
		"the host without the port":                 {session: good, change: onHost(demoID.Namespace() + ".preview.test"), code: 200},
		"a path of the data plane on no such host": {path: func(*testing.T) string { return demo + "proxy/" }, change: func(r *http.Request) {
			r.Host = "x." + previewDomain
			r.Header.Set("Authorization", "Bearer "+adminToken)
		}, code: 404, reason: refusal.CauseNoPreview},
		"a session on a host that is not a preview's": {session: good, change: onHost("preview.test"), code: 400, reason: refusal.CauseMalformed},
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
			if c.code == 401 && !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), refusal.PreviewChallenge) {
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
	heir := placement.ID{Origin: "cluster1", UID: "uid-heir"}
	w.kcp.addInstance("cluster1", "default", "demo", heir.UID)
	w.newPlacement(heir, "demo", "127.0.0.1:1")
	res, body := w.browse(http.MethodGet, "/", session)
	wantStatus(t, res, body, http.StatusNotFound)
	if got := w.lastReason(); got != refusal.CauseNotPlaced && got != refusal.CauseAmbiguous {
		t.Errorf("reason %q", got)
	}
}

// TestAPreviewRefusesWhatPathsRefuse: the host leads past the router of paths, not past this.
func TestAPreviewRefusesWhatPathsRefuse(t *testing.T) {
	w := newPreviewWorld(t, recorder(), overTLS(t))
	session := preview.CookieName + "=" + sealed(t, preview.Session, previewHost, nil)
	for name, c := range map[string]struct {
		more []string
		want string // one of several where the stream may be reset before its answer
	}{
		"nothing, to compare":              {nil, "200"},
		"a length with a sign":             {[]string{"content-length", "+5"}, "400 reset"},
		"two lengths":                      {[]string{"content-length", "5", "content-length", "0"}, "400 reset"},
		"an expectation that there is not": {[]string{"expect", "smuggled"}, "417"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dialH2(t, strings.TrimPrefix(w.url, "http://"), 0)
			defer conn.Close()
			id, err := conn.request(true, append([]string{
				":method", "POST", ":scheme", "https", ":authority", previewHost, ":path", "/", "cookie", session, "origin", "https://" + previewHost,
			}, c.more...)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := conn.answer(id); !slices.Contains(strings.Fields(c.want), got) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestWhoMayNotReadTheInstanceHasNoPreview: revocation is written on the instance, so that a
// session could not be revoked for a subject that may use the verb alone.
func TestWhoMayNotReadTheInstanceHasNoPreview(t *testing.T) {
	w := newPreviewWorld(t, recorder(), func(s *setup) { s.opts.AuthorizationMode = access.Subresource })
	session := sealed(t, preview.Session, previewHost, nil)
	if res, body := w.browse(http.MethodGet, "/", session); res.StatusCode != http.StatusOK {
		t.Fatalf("who may read it: %d %s", res.StatusCode, body)
	}
	w.kcp.grant("user:"+previewUser, "get sandboxrunners/proxy")
	w.server.handler.authorizer.PurgeForTest()
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
	w.server.handler.authorizer.PurgeForTest() // as time does
	res, body := w.browse(http.MethodGet, "/", session)
	wantStatus(t, res, body, http.StatusForbidden)
}
