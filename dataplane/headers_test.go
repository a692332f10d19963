// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/dataplane/access"
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
