// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"net/http"
	"testing"
)

func TestWhichRequestsMayUseASession(t *testing.T) {
	const own = "https://" + host
	const sibling = "https://sb-zzzzzzzzzzzzzzzzzzzzzzzzzz.preview.example.com"
	fetch := func(site, mode, destination string, more ...string) http.Header {
		h := http.Header{"Sec-Fetch-Site": {site}, "Sec-Fetch-Mode": {mode}, "Sec-Fetch-Dest": {destination}}
		for _, origin := range more {
			h.Add("Origin", origin)
		}
		return h
	}
	origins := func(values ...string) http.Header { return http.Header{"Origin": values} }
	for name, c := range map[string]struct {
		method  string
		header  http.Header
		upgrade bool
		want    bool
	}{
		"the page fetches":                                  {"GET", fetch("same-origin", "cors", "empty"), false, true},
		"the page posts":                                    {"POST", fetch("same-origin", "cors", "empty", own), false, true},
		"the page loads a module":                           {"GET", fetch("same-origin", "cors", "script"), false, true},
		"the address bar":                                   {"GET", fetch("none", "navigate", "document"), false, true},
		"a link on another site":                            {"GET", fetch("cross-site", "navigate", "document"), false, true},
		"a link on a neighbouring preview":                  {"GET", fetch("same-site", "navigate", "document"), false, true},
		"a frame of the product":                            {"GET", fetch("cross-site", "navigate", "iframe"), false, true},
		"a form of another site":                            {"POST", fetch("cross-site", "navigate", "document", "https://evil.example"), false, false},
		"a form of a neighbouring preview":                  {"POST", fetch("same-site", "navigate", "document", sibling), false, false},
		"a form of a page without an origin":                {"POST", fetch("cross-site", "navigate", "document", "null"), false, false},
		"a fetch of a neighbouring preview":                 {"GET", fetch("same-site", "cors", "empty", sibling), false, false},
		"a fetch of another site":                           {"GET", fetch("cross-site", "cors", "empty", "https://evil.example"), false, false},
		"a fetch without CORS":                              {"GET", fetch("cross-site", "no-cors", "empty"), false, false},
		"an image on another site":                          {"GET", fetch("cross-site", "no-cors", "image"), false, false},
		"a script on a neighbouring preview":                {"GET", fetch("same-site", "no-cors", "script"), false, false},
		"an object on another site":                         {"GET", fetch("cross-site", "navigate", "object"), false, false},
		"an embed on another site":                          {"GET", fetch("cross-site", "navigate", "embed"), false, false},
		"a navigation of unknown kind":                      {"GET", fetch("cross-site", "navigate", ""), false, false},
		"a site that is no word we know":                    {"GET", fetch("", "cors", "empty"), false, false},
		"two statements of the site":                        {"GET", http.Header{"Sec-Fetch-Site": {"cross-site", "same-origin"}}, false, false},
		"two origins":                                       {"GET", origins(own, own), false, false},
		"an old browser reads":                              {"GET", nil, false, true},
		"an old browser looks":                              {"HEAD", nil, false, true},
		"an old browser's page posts":                       {"POST", origins(own), false, true},
		"an old browser posts from nowhere":                 {"POST", nil, false, false},
		"an old browser deletes from nowhere":               {"DELETE", nil, false, false},
		"an old browser reads for another":                  {"GET", origins(sibling), false, false},
		"an old browser posts for another":                  {"POST", origins("https://evil.example"), false, false},
		"an old browser posts for a page without an origin": {"POST", origins("null"), false, false},
		"the origin over plain HTTP":                        {"POST", origins("http://" + host), false, false},
		"the origin with another port":                      {"POST", origins(own + ":8443"), false, false},
		"the origin with a dot":                             {"POST", origins(own + "."), false, false},
		"the page opens a WebSocket":                        {"GET", origins(own), true, true},
		"a WebSocket of a neighbouring preview":             {"GET", origins(sibling), true, false},
		"a WebSocket of another site":                       {"GET", fetch("cross-site", "websocket", "websocket", "https://evil.example"), true, false},
		"a WebSocket without an origin":                     {"GET", nil, true, false},
		"a WebSocket that claims to be of the same origin":  {"GET", fetch("same-origin", "websocket", "websocket"), true, false},
		"a WebSocket with two origins":                      {"GET", origins(own, own), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := OriginAllowed(c.method, c.header, c.upgrade, own); got != c.want {
				t.Errorf("allowed: %v", got)
			}
		})
	}
}
