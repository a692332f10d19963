// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// linkAs asks for a link with a token.
func (w *world) linkAs(token, body string) (preview.Response, int, string) {
	w.t.Helper()
	res, got := w.do(http.MethodPost, proxyURL, token, strings.NewReader(body))
	var link preview.Response
	if res.StatusCode == http.StatusCreated {
		if err := json.Unmarshal([]byte(got), &link); err != nil {
			w.t.Fatal(err)
		}
	}
	return link, res.StatusCode, got
}

// A session of twelve hours was given for a token of one.
func TestASessionEndsWithTheTokenThatItsLinkWasAskedForWith(t *testing.T) {
	now := time.Now()
	soon, late, over, almost := tokenThatEnds(now.Add(5*time.Minute)), tokenThatEnds(now.Add(10*time.Hour)), tokenThatEnds(now.Add(-30*time.Second)), tokenThatEnds(now.Add(5*time.Second))
	for name, c := range map[string]struct {
		token, body string
		operator    int64 // seconds; 0 for the default
		lasts       time.Duration
		refused     int
	}{
		"a token that ends sooner":                    {token: soon, lasts: 5 * time.Minute},
		"however long the request wants":              {token: soon, body: `{"expirationSeconds":43200}`, lasts: 5 * time.Minute},
		"and the operator allows":                     {token: soon, body: `{"expirationSeconds":43200}`, operator: 43200, lasts: 5 * time.Minute},
		"a token that ends later":                     {token: late, lasts: 15 * time.Minute},
		"and whose request wants more":                {token: late, body: `{"expirationSeconds":43200}`, lasts: 15 * time.Minute},
		"where the operator allows more":              {token: late, body: `{"expirationSeconds":7200}`, operator: 43200, lasts: 2 * time.Hour},
		"a request for less":                          {token: late, body: `{"expirationSeconds":60}`, lasts: time.Minute},
		"where the operator allows less":              {token: late, operator: 120, lasts: 2 * time.Minute},
		"a token that says no end":                    {token: "opaque-token-of-alice", lasts: 15 * time.Minute},
		"one that kcp still takes a minute longer":    {token: over, refused: 401},
		"one that ends before a page could be loaded": {token: almost, refused: 401},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPreviewWorld(t, recorder())
			if c.operator != 0 {
				w.configure(lasting(c.operator))
				eventually(t, "the setting is in force", func() bool {
					return w.server.settings.now().previewSession == time.Duration(c.operator)*time.Second
				})
			}
			w.kcp.grant(c.token, "*")
			w.kcp.who.set(c.token, authenticationv1.UserInfo{Username: previewUser})
			link, code, body := w.linkAs(c.token, c.body)
			if c.refused != 0 {
				if code != c.refused || !strings.Contains(body, "ask with a new one") {
					t.Errorf("got %d %s", code, body)
				}
				return
			}
			if code != http.StatusCreated {
				t.Fatalf("got %d %s", code, body)
			}
			if lasts := link.SessionExpirationTimestamp.Sub(now); lasts < c.lasts-2*time.Second || lasts > c.lasts+30*time.Second {
				t.Errorf("the session lasts %v, want %v", lasts, c.lasts)
			}
			u, _ := url.Parse(link.URL)
			res, _ := w.browse(http.MethodGet, u.RequestURI(), "", navigating)
			if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
				t.Fatalf("entering: %d", res.StatusCode)
			}
			if kept := time.Duration(res.Cookies()[0].MaxAge) * time.Second; kept > c.lasts+30*time.Second {
				t.Errorf("the browser keeps it for %v", kept)
			}
		})
	}
}

// A shorter limit is in force for the sessions that there are: it is set because these last too long.
func TestAShorterLimitHoldsForSessionsThatThereAre(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	session := sealed(t, preview.Session, previewHost, func(c *preview.Claims) {
		c.IssuedAt, c.Expires = time.Now().Add(-10*time.Minute).UnixNano(), time.Now().Add(11*time.Hour).Unix()
	})
	status := func() int {
		res, _ := w.browse(http.MethodGet, "/", session)
		return res.StatusCode
	}
	if got := status(); got != http.StatusOK {
		t.Fatalf("a session of ten minutes: %d", got)
	}
	w.configure(lasting(300))
	eventually(t, "the session is over", func() bool { return status() == http.StatusUnauthorized })
	if got := w.lastReason(); got != refusal.CausePreviewExpired {
		t.Errorf("reason %q", got)
	}
	w.configure(lasting(59)) // which no API server that checks would take
	w.configure(lasting(3600))
	eventually(t, "the session is good again", func() bool { return status() == http.StatusOK })
}

// The service that hands out links can issue another one without a person: it knows the person at the
// browser by other means than our session, and so checks again.
func TestAnEndedSessionLeadsToWhereItIsRenewed(t *testing.T) {
	const hub = "https://hub.example/renew?box=1"
	w := newPreviewWorld(t, recorder())
	link, code, body := w.linkAs(adminToken, fmt.Sprintf(`{"renewURL":%q,"path":"/start?x=1"}`, hub))
	if code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	u, _ := url.Parse(link.URL)
	res, _ := w.browse(http.MethodGet, u.RequestURI(), "", navigating)
	if kept := time.Duration(res.Cookies()[0].MaxAge) * time.Second; kept < preview.RenewGrace {
		t.Errorf("the browser forgets where to renew after %v", kept)
	}
	over := func(change func(*preview.Claims)) string {
		return sealed(t, preview.Session, previewHost, func(c *preview.Claims) {
			c.Renew, c.Expires, c.Path = hub, time.Now().Unix()-1, ""
			if change != nil {
				change(c)
			}
		})
	}
	late := sealed(t, preview.Link, previewHost, func(c *preview.Claims) {
		c.Renew, c.Expires, c.Path = hub, time.Now().Unix()-1, "/start?x=1"
	})
	for name, c := range map[string]struct {
		method, path, session string
		change                func(*http.Request)
		want                  string // the Location; empty for a 401
	}{
		"a page":                   {"GET", "/a/b?c=d", over(nil), navigating, hub + "&path=%2Fa%2Fb%3Fc%3Dd"},
		"an old browser's page":    {"GET", "/", over(nil), with("Accept", "text/html"), hub + "&path=%2F"},
		"a link that was too late": {"GET", preview.EnterPath + "?link=" + late, "", navigating, hub + "&path=%2Fstart%3Fx%3D1"},
		"a fetch of its scripts":   {"GET", "/data", over(nil), with("Sec-Fetch-Mode", "cors"), ""},
		"a form":                   {"POST", "/", over(nil), func(r *http.Request) { navigating(r); r.Header.Set("Origin", "https://"+previewHost) }, ""},
		"a WebSocket": {"GET", "/", over(nil), func(r *http.Request) {
			r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
			r.Header.Set("Origin", "https://"+previewHost)
		}, ""},
		"a session without":         {"GET", "/", over(func(c *preview.Claims) { c.Renew = "" }), navigating, ""},
		"a session of another host": {"GET", "/", sealed(t, preview.Session, "api--"+previewHost, func(c *preview.Claims) { c.Renew = hub }), navigating, ""},
		"no session":                {"GET", "/", "", navigating, ""},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := w.browse(c.method, c.path, c.session, c.change)
			if c.want == "" {
				if res.StatusCode != http.StatusUnauthorized || res.Header.Get("Location") != "" {
					t.Errorf("%d to %q: %s", res.StatusCode, res.Header.Get("Location"), body)
				}
				return
			}
			if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != c.want {
				t.Errorf("%d to %q, want %q", res.StatusCode, res.Header.Get("Location"), c.want)
			}
			if res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("the redirect has %v", res.Header)
			}
		})
	}
	t.Run("one that was revoked does not", func(t *testing.T) {
		session := sealed(t, preview.Session, previewHost, func(c *preview.Claims) { c.Renew = hub })
		w.annotate(time.Now().Add(time.Minute).Format(time.RFC3339Nano))
		w.server.handler.authorizer.PurgeForTest()
		if res, _ := w.browse(http.MethodGet, "/", session, navigating); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%d to %q", res.StatusCode, res.Header.Get("Location"))
		}
	})
}
