// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http/httpguts"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/tenant"
)

// FuzzFilterRequest: of all that a caller can name and send, none of the withheld headers arrives, no control
// token or proof among them, and nothing of ours is missing.
func FuzzFilterRequest(f *testing.F) {
	f.Add("Connection", "x-sandbox-control-token", "X-Remote-User", "admin", false)
	f.Add("connection", "X-Forwarded-Host", "X_Forwarded_Host", "evil", true)
	f.Add("Sec-WebSocket-Protocol", access.BearerProtocolPrefix+"eA, chat", "Impersonate-User", "x", true)
	f.Add("aUTHORIZATION", "Bearer x", "x-kedge-tenant", "t", false)
	filter := NewFilter(nil, nil)
	f.Add("x-sandbox-control-proof", "v1", "X-Sandbox-Control-Token", "forged", false)
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string, proxy bool) {
		h := http.Header{}
		h.Add(name1, value1)
		h.Add(name2, value2)
		to := &locate.Target{Proxy: proxy, Secret: "sandbar-control"}
		RemoveHopByHop(h)
		filter.Request(h, httptest.NewRequest(http.MethodGet, "http://front.example/", nil), locate.Route{Prefix: "/p"}, to, tenant.Caller{})
		for name, values := range h {
			canonical := textproto.CanonicalMIMEHeaderKey(name)
			switch canonical {
			case "X-Forwarded-Prefix", "X-Forwarded-Host", "X-Forwarded-Proto":
				if !proxy || len(values) != 1 {
					t.Errorf("%s is %q", name, values)
				}
				continue
			case ControlToken, controlproof.Header:
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
		if proxy && (h.Get(Host) != "front.example" || h.Get(Prefix) != "/p" || h.Get(Proto) != "http") {
			t.Errorf("ours are %v", h)
		}
	})
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

func TestNamesOfHeadersAndCookiesInFlags(t *testing.T) {
	for name, c := range map[string]struct {
		names            []string
		cookies, headers bool
	}{
		"none":                      {nil, true, true},
		"a name":                    {[]string{"session"}, true, true},
		"a beginning":               {[]string{"_oauth2_proxy*"}, true, true},
		"every name":                {[]string{"*"}, true, false},
		"an empty name":             {[]string{"session", ""}, false, false},
		"a pair":                    {[]string{"session=1"}, false, false},
		"a name with a space":       {[]string{"my session"}, false, false},
		"a name with a colon":       {[]string{"X-A: b"}, false, false},
		"an asterisk in the middle": {[]string{"a*b"}, false, false},
		"two asterisks":             {[]string{"a**"}, false, false},
		"what frames a request":     {[]string{"content-length"}, true, false},
		"what switches protocols":   {[]string{"Sec-Websocket-*"}, true, false},
		"the type of a body":        {[]string{"Content-*"}, true, false},
		"a letter":                  {[]string{"C*"}, true, false},
		"all that is not standard":  {[]string{"X-*"}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := ValidateNames("hub-cookies", c.names); (err == nil) != c.cookies || err != nil && !strings.Contains(err.Error(), "hub-cookies") {
				t.Errorf("cookies: %v", err)
			}
			if err := ValidateHubHeaders(c.names); (err == nil) != c.headers || err != nil && !strings.Contains(err.Error(), "hub-headers") {
				t.Errorf("headers: %v", err)
			}
		})
	}
}

// The set is looked up with one comparison of a prefix; it must find what a comparison with each
// name finds.
func FuzzHeaderSet(f *testing.F) {
	f.Add("X-Accel-*,X-A*,Forwarded", "X-Accel-Redirect")
	f.Add("Cf-*,Cf-Access-*,C*", "Cf-Ray")
	f.Add("*", "")
	f.Fuzz(func(t *testing.T, list, name string) {
		names := strings.Split(list, ",")
		if ValidateNames("x", names) != nil {
			return
		}
		name = http.CanonicalHeaderKey(name)
		want := slices.ContainsFunc(names, func(n string) bool {
			prefix, open := strings.CutSuffix(n, "*")
			return strings.EqualFold(n, name) || open && httpguts.ValidHeaderFieldName(name+"x") && len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
		})
		if got := newHeaderSet(names).has(name); got != want && httpguts.ValidHeaderFieldName(name) {
			t.Errorf("%q in %q: %t, want %t", name, list, got, want)
		}
	})
}
