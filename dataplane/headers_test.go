// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/tenant"
)

func TestConnectionCannotRemoveOurHeaders(t *testing.T) {
	w := newWorld(t, recorder())
	for _, token := range []string{
		"X-Sandbox-Control-Token", "x-sandbox-control-token", "X-SANDBOX-CONTROL-TOKEN", "close, x-sandbox-control-token", "keep-alive,\tX-Sandbox-Control-Token ",
	} {
		t.Run("named as "+token, func(t *testing.T) {
			got := w.received("POST", demo+"sync", "", func(r *http.Request) {
				r.Header["Connection"], r.Header["X-Sandbox-Control-Token"] = []string{token}, []string{"forged"}
			})
			if diff := cmp.Diff([]string{controlToken}, got.Header["X-Sandbox-Control-Token"]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestConfineCookies(t *testing.T) {
	const prefix = "/dp/demo/proxy"
	for cookie, want := range map[string]string{
		"a=b":                                   "a=b; Path=/dp/demo/proxy/",
		"a=b; Path=/":                           "a=b; Path=/dp/demo/proxy/",
		"a=b; path=/x; DOMAIN=.com; Secure":     "a=b; Secure; Path=/dp/demo/proxy/x",
		"a=b; Path=relative":                    "a=b; Path=/dp/demo/proxy/",
		"a=b; Path=/dp/demo/proxy/x":            "a=b; Path=/dp/demo/proxy/x",
		"a=b; Path=/dp/demo/proxyother":         "a=b; Path=/dp/demo/proxy/dp/demo/proxyother",
		"a=b; Path=/x; Path=/y":                 "a=b; Path=/dp/demo/proxy/y",
		"a=b; Domain; Domain=; domain=x ;Lax":   "a=b; Lax; Path=/dp/demo/proxy/",
		"a=b; Max-Age=1; SameSite=None; domain": "a=b; Max-Age=1; SameSite=None; Path=/dp/demo/proxy/",
	} {
		h := http.Header{"Set-Cookie": {cookie}}
		confineCookies(h, prefix)
		if diff := cmp.Diff([]string{want}, h["Set-Cookie"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", cookie, diff)
		}
	}
}

// FuzzFilterRequest: whatever a caller names and sends, none of the withheld headers arrives, no control
// token or proof among them, and nothing of ours is missing.
func FuzzFilterRequest(f *testing.F) {
	f.Add("Connection", "x-sandbox-control-token", "X-Remote-User", "admin", false)
	f.Add("connection", "X-Forwarded-Host", "X_Forwarded_Host", "evil", true)
	f.Add("Sec-WebSocket-Protocol", access.BearerProtocolPrefix+"eA, chat", "Impersonate-User", "x", true)
	f.Add("aUTHORIZATION", "Bearer x", "x-kedge-tenant", "t", false)
	filter := newRequestFilter(nil, nil)
	f.Add("x-sandbox-control-proof", "v1", "X-Sandbox-Control-Token", "forged", false)
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string, proxy bool) {
		h := http.Header{}
		h.Add(name1, value1)
		h.Add(name2, value2)
		to := &locate.Target{Proxy: proxy, Secret: "sandbar-control"}
		removeHopByHop(h)
		filter.filterRequest(h, httptest.NewRequest(http.MethodGet, "http://front.example/", nil), locate.Route{Prefix: "/p"}, to, tenant.Caller{})
		for name, values := range h {
			canonical := textproto.CanonicalMIMEHeaderKey(name)
			switch canonical {
			case "X-Forwarded-Prefix", "X-Forwarded-Host", "X-Forwarded-Proto":
				if !proxy || len(values) != 1 {
					t.Errorf("%s is %q", name, values)
				}
				continue
			case headerControlToken, controlproof.Header:
				t.Errorf("%s is %q", name, values)
			case access.ProtocolHeader:
				if strings.Contains(strings.ToLower(strings.Join(values, ",")), access.BearerProtocolPrefix) {
					t.Errorf("a bearer came through in %q", values)
				}
			case "Authorization", "Forwarded", "Connection", "Upgrade", "Transfer-Encoding":
				t.Errorf("%s came through", name)
			}
			lower := strings.ToLower(name)
			for _, prefix := range []string{"x-remote-", "impersonate-", "x-forwarded-", "x-kedge-", "cf-access-", "x-amzn-oidc-"} {
				if strings.HasPrefix(lower, prefix) {
					t.Errorf("%s came through", name)
				}
			}
			if strings.Contains(name, "_") {
				t.Errorf("%s came through", name)
			}
		}
		if proxy && (h.Get(headerHost) != "front.example" || h.Get(headerPrefix) != "/p" || h.Get(headerProto) != "http") {
			t.Errorf("ours are %v", h)
		}
	})
}

// What a client meant for a token is no business of the pod's, however badly it was written.
func TestMalformedBearerSubprotocolsReachNoPod(t *testing.T) {
	w := newWorld(t, recorder())
	encoded := base64.RawURLEncoding.EncodeToString([]byte(adminToken))
	std := base64.StdEncoding.EncodeToString([]byte(adminToken))
	for name, c := range map[string]struct{ offers, want []string }{
		"alone":                            {[]string{access.BearerProtocolPrefix + encoded}, nil},
		"beside another":                   {[]string{"chat, " + access.BearerProtocolPrefix + encoded}, []string{"chat"}},
		"two of them":                      {[]string{access.BearerProtocolPrefix + encoded + "," + access.BearerProtocolPrefix + encoded + ", chat"}, []string{"chat"}},
		"in several lines":                 {[]string{"chat", access.BearerProtocolPrefix + encoded, "more"}, []string{"chat, more"}},
		"in upper case":                    {[]string{strings.ToUpper(access.BearerProtocolPrefix) + encoded + ", chat"}, []string{"chat"}},
		"with padding":                     {[]string{access.BearerProtocolPrefix + std + "==, chat"}, []string{"chat"}},
		"no base64":                        {[]string{access.BearerProtocolPrefix + adminToken + ", chat"}, []string{"chat"}},
		"a prefix without the last dot":    {[]string{strings.TrimSuffix(access.BearerProtocolPrefix, ".") + encoded + ", chat"}, []string{"chat"}},
		"base64 instead of base64url":      {[]string{"base64.bearer.authorization.k8s.io." + std + ", chat"}, []string{"chat"}},
		"without base64url":                {[]string{"bearer.authorization.k8s.io." + encoded + ", chat"}, []string{"chat"}},
		"an equals sign":                   {[]string{strings.TrimSuffix(access.BearerProtocolPrefix, ".") + "=" + encoded + ", chat"}, []string{"chat"}},
		"a space behind the prefix":        {[]string{access.BearerProtocolPrefix + " " + encoded + ", chat"}, []string{"chat"}},
		"a comma behind the prefix":        {[]string{access.BearerProtocolPrefix + "," + encoded + ", chat"}, []string{"chat"}},
		"the token alone":                  {[]string{adminToken + ", chat"}, []string{"chat"}},
		"behind a space":                   {[]string{"chat " + access.BearerProtocolPrefix + encoded}, nil},
		"behind a semicolon":               {[]string{"chat;" + access.BearerProtocolPrefix + encoded + ", more"}, []string{"more"}},
		"in quotes":                        {[]string{`"` + access.BearerProtocolPrefix + encoded + `", chat`}, []string{"chat"}},
		"behind a tab":                     {[]string{"\t" + access.BearerProtocolPrefix + encoded + "\t,\tchat"}, []string{"chat"}},
		"behind a space that is not ASCII": {[]string{"\u00a0" + access.BearerProtocolPrefix + encoded + ", chat"}, []string{"chat"}},
		"behind an invisible character":    {[]string{"\ufeff" + access.BearerProtocolPrefix + encoded + ", chat"}, []string{"chat"}},
		"empty":                            {[]string{access.BearerProtocolPrefix + ", chat"}, []string{"chat"}},
		"none":                             {[]string{"chat, SPDY/3.1+portforward.k8s.io"}, []string{"chat, SPDY/3.1+portforward.k8s.io"}},
	} {
		for way, path := range map[string]string{"the app's WebSocket": "proxy", "a control verb's": "echo"} {
			t.Run(name+", "+way, func(t *testing.T) {
				got := w.received("GET", demo+path, "", func(r *http.Request) {
					r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
					r.Header[access.ProtocolHeader] = c.offers
				})
				if diff := cmp.Diff(c.want, got.Header[access.ProtocolHeader]); diff != "" {
					t.Errorf("the pod was offered (-want +got):\n%s", diff)
				}
				text, _ := json.Marshal(got)
				if strings.Contains(string(text), adminToken) || strings.Contains(string(text), encoded) {
					t.Errorf("the pod got the token: %s", text)
				}
			})
		}
	}
}

// A name in another form would delete nothing.
func TestTheListsOfHeadersAreCanonical(t *testing.T) {
	for _, name := range slices.Concat(hopByHop, namesOf(withheldHeaders), namesOf(withheldAnswers), controlAnswers, neededHeaders) {
		bare, _ := strings.CutSuffix(name, "*")
		if canonical := canonicalPrefix(bare); canonical != bare {
			t.Errorf("%s must be %s", bare, canonical)
		}
	}
}
