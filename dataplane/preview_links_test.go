// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

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
		"an identity larger than a cookie": {prepare: func(w *world) { identify(w, huge, all, all) }, code: 422, want: "3800 bytes"},
		"a session that is too long":       {body: `{"expirationSeconds":43201}`, token: adminToken, code: 400, want: "between 60 and 43200"},
		"a path to another host":           {body: `{"path":"//evil.example/"}`, token: adminToken, code: 400, want: "path must begin with one slash"},
		"a body that is too large":         {body: strings.Repeat(" ", preview.MaxRequestBytes+1), token: adminToken, code: 400, want: "4096 bytes"},
		"another method":                   {method: http.MethodPut, token: adminToken, code: 405, want: "DELETE, POST"},
		"another method of who may have a link": {method: http.MethodGet, prepare: func(w *world) {
			identify(w, bob, []string{"get sandboxrunners", "create sandboxrunners/proxy-url"}, nil)
		}, code: 405, want: "DELETE, POST"},
		"another method of who may not": {method: http.MethodGet, prepare: func(w *world) {
			identify(w, bob, []string{"get sandboxrunners", "get sandboxrunners/proxy"}, all)
		}, code: 403, want: "access denied"},
		"another method of what is not there": {method: http.MethodGet, path: strings.Replace(proxyURL, "/demo/", "/none/", 1), prepare: func(w *world) {
			identify(w, bob, []string{"get sandboxrunners", "create sandboxrunners/proxy-url"}, nil)
		}, code: 404, want: "no such instance or verb"},
		"a revocation of who may have a link alone": {method: http.MethodDelete, prepare: func(w *world) {
			identify(w, bob, []string{"get sandboxrunners", "create sandboxrunners/proxy-url", "patch sandboxrunners"}, nil)
		}, code: 403, want: "access denied"},
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
			if got := res.Header.Get("Allow"); (got == c.want) != (c.code == http.StatusMethodNotAllowed) {
				t.Errorf("Allow is %q", got)
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
	w.server.handler.authorizer.PurgeForTest() // as time does
	for what, path := range map[string]string{"session": "/", "link": link} {
		res, body := w.browse(http.MethodGet, path, session)
		wantStatus(t, res, body, http.StatusUnauthorized)
		if got := w.lastReason(); got != refusal.CausePreviewRevoked {
			t.Errorf("%s: reason %q", what, got)
		}
	}
	if res, body := w.browse(http.MethodGet, "/", w.enter(w.link(""))); res.StatusCode != http.StatusOK {
		t.Errorf("a new link: %d %s", res.StatusCode, body)
	}

	// A revocation for the future is not taken back by another one.
	w.annotate("2999-01-01T00:00:00Z")
	w.server.handler.authorizer.PurgeForTest()
	if res, body := w.do(http.MethodDelete, proxyURL, patcher, nil); res.StatusCode != http.StatusOK || !strings.Contains(body, "2999") {
		t.Errorf("revoking again: %d %s", res.StatusCode, body)
	}
}
