// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAHubsCookiesDoNotReachPods(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.opts.HubCookies = []string{"hub", "_session_*"} })
	for name, c := range map[string]struct {
		cookies, want []string
	}{
		"an app's cookies pass":                {[]string{"theme=dark; id=7"}, []string{"theme=dark; id=7"}},
		"a hub's cookie does not":              {[]string{"theme=dark; hub=s3cret; id=7"}, []string{"theme=dark; id=7"}},
		"nor in a line of its own":             {[]string{"theme=dark", "hub=s3cret"}, []string{"theme=dark"}},
		"nor in another case":                  {[]string{"HUB=s3cret; id=7"}, []string{"id=7"}},
		"nor twice":                            {[]string{"hub=a; id=7; hub=b"}, []string{"id=7"}},
		"nor with a space before its sign":     {[]string{"hub =s3cret; id=7"}, []string{"id=7"}},
		"nor one cut into pieces":              {[]string{"_session_0=a; _session_1=b; id=7"}, []string{"id=7"}},
		"nothing is left of a hub's alone":     {[]string{"hub=s3cret; _session_x=1"}, nil},
		"a name that only begins so passes":    {[]string{"hubert=1; _session=2"}, []string{"hubert=1; _session=2"}},
		"a value that looks like one passes":   {[]string{"id=hub=1"}, []string{"id=hub=1"}},
		"a cookie that is its own name passes": {[]string{"hubert"}, []string{"hubert"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.received("GET", demo+"proxy/x", "", func(r *http.Request) { r.Header["Cookie"] = c.cookies })
			if diff := cmp.Diff(c.want, got.Header["Cookie"]); diff != "" {
				t.Errorf("cookies at the pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHubCookiesAreNames(t *testing.T) {
	for name, c := range map[string]struct {
		cookies hubCookies
		ok      bool
	}{
		"none":                      {nil, true},
		"a name":                    {hubCookies{"session"}, true},
		"a beginning":               {hubCookies{"_oauth2_proxy*"}, true},
		"every name":                {hubCookies{"*"}, true},
		"an empty name":             {hubCookies{"session", ""}, false},
		"a pair":                    {hubCookies{"session=1"}, false},
		"a name with a space":       {hubCookies{"my session"}, false},
		"an asterisk in the middle": {hubCookies{"a*b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.cookies.validate(); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "hub-cookies") {
				t.Errorf("got %v", err)
			}
		})
	}
}
