// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/tenant"
)

func TestConnectionCannotRemoveOurHeaders(t *testing.T) {
	for _, token := range []string{
		"X-Sandbox-Control-Token", "x-sandbox-control-token", "X-SANDBOX-CONTROL-TOKEN", "close, x-sandbox-control-token", "keep-alive,\tX-Sandbox-Control-Token ",
	} {
		t.Run("named as "+token, func(t *testing.T) {
			h := http.Header{"Connection": {token}, "X-Sandbox-Control-Token": {"forged"}}
			removeHopByHop(h)
			filterRequest(h, httptest.NewRequest(http.MethodPost, "/", nil), route{}, &target{token: newSecretToken(controlToken)}, nil)
			if diff := cmp.Diff([]string{controlToken}, h["X-Sandbox-Control-Token"]); diff != "" {
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

// FuzzFilterRequest: whatever a caller names and sends, none of the withheld headers arrives, the
// control token is ours or absent, and nothing of ours is missing.
func FuzzFilterRequest(f *testing.F) {
	f.Add("Connection", "x-sandbox-control-token", "X-Remote-User", "admin", false)
	f.Add("connection", "X-Forwarded-Host", "X_Forwarded_Host", "evil", true)
	f.Add("Sec-WebSocket-Protocol", bearerProtocolPrefix+"eA, chat", "Impersonate-User", "x", true)
	f.Add("aUTHORIZATION", "Bearer x", "x-kedge-tenant", "t", false)
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string, proxy bool) {
		h := http.Header{}
		h.Add(name1, value1)
		h.Add(name2, value2)
		to := &target{proxy: proxy, token: newSecretToken(controlToken)}
		removeHopByHop(h)
		filterRequest(h, httptest.NewRequest(http.MethodGet, "http://front.example/", nil), route{prefix: "/p"}, to, nil)
		for name, values := range h {
			canonical := textproto.CanonicalMIMEHeaderKey(name)
			switch canonical {
			case "X-Forwarded-Prefix", "X-Forwarded-Host", "X-Forwarded-Proto":
				if !proxy || len(values) != 1 {
					t.Errorf("%s is %q", name, values)
				}
				continue
			case headerControlToken:
				if proxy || len(values) != 1 || values[0] != controlToken {
					t.Errorf("the control token is %q", values)
				}
				continue
			case protocolHeader:
				if strings.Contains(strings.ToLower(strings.Join(values, ",")), bearerProtocolPrefix) {
					t.Errorf("a bearer came through in %q", values)
				}
			case "Authorization", "Forwarded", "Connection", "Upgrade", "Transfer-Encoding":
				t.Errorf("%s came through", name)
			}
			lower := strings.ToLower(name)
			for _, prefix := range []string{"x-remote-", "impersonate-", "x-forwarded-", "x-kedge-"} {
				if strings.HasPrefix(lower, prefix) {
					t.Errorf("%s came through", name)
				}
			}
			if strings.Contains(name, "_") {
				t.Errorf("%s came through", name)
			}
		}
		if want := map[bool]string{true: "", false: controlToken}[proxy]; h.Get(headerControlToken) != want {
			t.Errorf("the control token is %q", h.Get(headerControlToken))
		}
		if proxy && (h.Get(headerHost) != "front.example" || h.Get(headerPrefix) != "/p" || h.Get(headerProto) != "http") {
			t.Errorf("ours are %v", h)
		}
	})
}

func TestIdentify(t *testing.T) {
	encoded := func(token string) string {
		return bearerProtocolPrefix + base64.RawURLEncoding.EncodeToString([]byte(token))
	}
	upgrade := func(protocols ...string) http.Header {
		return http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, protocolHeader: protocols}
	}
	for name, c := range map[string]struct {
		header http.Header
		want   string // empty means 401
	}{
		"a bearer":                           {http.Header{"Authorization": {"Bearer abc.def-_~+/="}}, "abc.def-_~+/="},
		"the scheme is not case-sensitive":   {http.Header{"Authorization": {"bEARER abc"}}, "abc"},
		"two spaces":                         {http.Header{"Authorization": {"Bearer  abc"}}, "abc"},
		"nobody":                             {http.Header{}, ""},
		"another scheme":                     {http.Header{"Authorization": {"Basic YTpi"}}, ""},
		"a scheme alone":                     {http.Header{"Authorization": {"Bearer"}}, ""},
		"an empty token":                     {http.Header{"Authorization": {"Bearer "}}, ""},
		"a token with a space":               {http.Header{"Authorization": {"Bearer a b"}}, ""},
		"a token with a control character":   {http.Header{"Authorization": {"Bearer a\x01b"}}, ""},
		"a token that is too long":           {http.Header{"Authorization": {"Bearer " + strings.Repeat("x", maxTokenBytes+1)}}, ""},
		"two headers":                        {http.Header{"Authorization": {"Bearer a", "Bearer b"}}, ""},
		"stated identities count for naught": {http.Header{"X-Remote-User": {"admin"}, "X-Kedge-User": {"admin"}}, ""},
		"a cookie counts for naught":         {http.Header{"Cookie": {"token=abc"}}, ""},
		"a subprotocol":                      {upgrade(encoded("abc") + ", chat"), "abc"},
		"a subprotocol among several lines":  {upgrade("chat", encoded("abc")), "abc"},
		"a header wins over a subprotocol": {http.Header{
			"Authorization": {"Bearer header"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}, protocolHeader: {encoded("sub")},
		}, "header"},
		"two headers and a subprotocol": {http.Header{
			"Authorization": {"Bearer a", "Bearer b"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}, protocolHeader: {encoded("sub")},
		}, ""},
		"a subprotocol without an upgrade": {http.Header{protocolHeader: {encoded("abc")}}, ""},
		"two bearers":                      {upgrade(encoded("a") + "," + encoded("b")), ""},
		"padding":                          {upgrade(bearerProtocolPrefix + "YQ=="), ""},
		"no base64":                        {upgrade(bearerProtocolPrefix + "!!"), ""},
		"an empty bearer":                  {upgrade(bearerProtocolPrefix), ""},
		"a bearer with a new line":         {upgrade(encoded("a\nb")), ""},
		"a bearer that is no UTF-8":        {upgrade(encoded("\xff\xfe")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, refused := identifyByToken(&http.Request{Header: c.header})
			if c.want == "" {
				if refused == nil || refused.code != http.StatusUnauthorized {
					t.Errorf("got %v, %v; want a 401", got, refused)
				}
				return
			}
			if refused != nil || got.CredentialKey() != tenant.Bearer(c.want).CredentialKey() {
				t.Errorf("got another caller, %v; want %q", refused, c.want)
			}
		})
	}
}

// FuzzBearerProtocol: what is taken for a token is sound, and never goes on to a pod.
func FuzzBearerProtocol(f *testing.F) {
	f.Add(bearerProtocolPrefix+"YWJj, chat", "x")
	f.Add("chat,"+strings.ToUpper(bearerProtocolPrefix)+"YWJj", bearerProtocolPrefix)
	f.Add(bearerProtocolPrefix+"YQ", bearerProtocolPrefix+"YQ")
	f.Fuzz(func(t *testing.T, a, b string) {
		token, refused := tokenInProtocol([]string{a, b})
		if (refused == nil) == (token == "") {
			t.Errorf("%q %q: got both or neither of token and refusal", a, b)
		}
		if refused == nil && !isToken(token) {
			t.Errorf("%q %q: token %q", a, b, token)
		}
		for _, kept := range withoutBearerProtocol([]string{a, b}) {
			if strings.Contains(strings.ToLower(kept), ", "+bearerProtocolPrefix) || strings.HasPrefix(strings.ToLower(kept), bearerProtocolPrefix) {
				t.Errorf("%q %q: %q goes on", a, b, kept)
			}
		}
	})
}

// A name in another form would delete nothing.
func TestTheListsOfHeadersAreCanonical(t *testing.T) {
	for _, name := range slices.Concat(hopByHop, withheldFromCallers) {
		if canonical := http.CanonicalHeaderKey(name); canonical != name {
			t.Errorf("%s must be %s", name, canonical)
		}
	}
}
