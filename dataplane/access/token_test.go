// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/tenant"
)

func TestIdentify(t *testing.T) {
	encoded := func(token string) string {
		return BearerProtocolPrefix + base64.RawURLEncoding.EncodeToString([]byte(token))
	}
	upgrade := func(protocols ...string) http.Header {
		return http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, ProtocolHeader: protocols}
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
			"Authorization": {"Bearer header"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}, ProtocolHeader: {encoded("sub")},
		}, "header"},
		"two headers and a subprotocol": {http.Header{
			"Authorization": {"Bearer a", "Bearer b"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}, ProtocolHeader: {encoded("sub")},
		}, ""},
		"a subprotocol without an upgrade": {http.Header{ProtocolHeader: {encoded("abc")}}, ""},
		"two bearers":                      {upgrade(encoded("a") + "," + encoded("b")), ""},
		"padding":                          {upgrade(BearerProtocolPrefix + "YQ=="), ""},
		"no base64":                        {upgrade(BearerProtocolPrefix + "!!"), ""},
		"an empty bearer":                  {upgrade(BearerProtocolPrefix), ""},
		"a bearer with a new line":         {upgrade(encoded("a\nb")), ""},
		"a bearer that is no UTF-8":        {upgrade(encoded("\xff\xfe")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, refused := IdentifyByToken(&http.Request{Header: c.header})
			if c.want == "" {
				if refused == nil || refused.Code != http.StatusUnauthorized {
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
	f.Add(BearerProtocolPrefix+"YWJj, chat", "x")
	f.Add("chat,"+strings.ToUpper(BearerProtocolPrefix)+"YWJj", BearerProtocolPrefix)
	f.Add(BearerProtocolPrefix+"YQ", BearerProtocolPrefix+"YQ")
	f.Fuzz(func(t *testing.T, a, b string) {
		token, refused := tokenInProtocol([]string{a, b})
		if (refused == nil) == (token == "") {
			t.Errorf("%q %q: got both or neither of token and refusal", a, b)
		}
		if refused == nil && !isToken(token) {
			t.Errorf("%q %q: token %q", a, b, token)
		}
		for _, kept := range WithoutBearerProtocol([]string{a, b}, tenant.Bearer(token)) {
			if strings.Contains(strings.ToLower(kept), "bearer.authorization") || token != "" && len(token) >= 8 && strings.Contains(kept, token) {
				t.Errorf("%q %q: %q goes on", a, b, kept)
			}
		}
	})
}
