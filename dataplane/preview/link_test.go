// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestRequestsForALink(t *testing.T) {
	for body, want := range map[string]*Request{
		"":                                  {"/", 3600},
		" \n":                               {"/", 3600},
		"{}":                                {"/", 3600},
		`{"path":"/a?b=c#d"}`:               {"/a?b=c#d", 3600},
		`{"path":"/a//b"}`:                  {"/a//b", 3600},
		`{"expirationSeconds":43200}`:       {"/", 43200},
		`{"expirationSeconds":60}`:          {"/", 60},
		`{"expirationSeconds":43201}`:       nil,
		`{"expirationSeconds":59}`:          nil,
		`{"expirationSeconds":0}`:           nil,
		`{"expirationSeconds":-1}`:          nil,
		`{"expirationSeconds":1.5}`:         nil,
		`{"path":""}`:                       nil,
		`{"path":"a"}`:                      nil,
		`{"path":"//evil.example"}`:         nil,
		`{"path":"/\\evil.example"}`:        nil,
		`{"path":"/\t/evil.example"}`:       nil,
		`{"path":"/\r\nSet-Cookie: a=b"}`:   nil,
		`{"path":"/ä"}`:                     nil,
		`{"path":"/%zz"}`:                   nil,
		`{"path":"https://evil.example/"}`:  nil,
		`{"path":"/.sandbar/enter?link=x"}`: nil,
		`{"path":"/%2esandbar/enter"}`:      nil,
		`{"path":"/.sandbar"}`:              nil,
		`{"other":1}`:                       nil,
		`{} {}`:                             nil,
		`[]`:                                nil,
		`{`:                                 nil,
		`{"path":"/` + strings.Repeat("a", MaxPathBytes) + `"}`: nil,
		strings.Repeat(" ", MaxRequestBytes+1):                  nil,
	} {
		got, err := ReadRequest(strings.NewReader(body))
		if want == nil {
			if !errors.Is(err, ErrRequest) {
				t.Errorf("%.60q: %+v, %v", body, got, err)
			}
			continue
		}
		if diff := cmp.Diff(*want, got); diff != "" || err != nil {
			t.Errorf("%.60q: %v %s", body, err, diff)
		}
	}
	if _, err := ReadRequest(iotest.ErrReader(io.ErrUnexpectedEOF)); err == nil || errors.Is(err, ErrRequest) {
		t.Errorf("a body that cannot be read: %v", err)
	}
}

func TestAPageHoldsNothingThatRuns(t *testing.T) {
	w := httptest.NewRecorder()
	Page{Code: 401, Message: "<script>alert(1)</script>"}.Write(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != 401 || strings.Contains(w.Body.String(), "<script") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func TestWhoWantsAPage(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		want   bool
	}{
		"a browser that navigates":    {http.Header{"Accept": {"text/html,*/*"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}, true},
		"an old browser":              {http.Header{"Accept": {"text/html,*/*"}}, true},
		"a script of a page":          {http.Header{"Accept": {"*/*"}, "Sec-Fetch-Mode": {"cors"}}, false},
		"a script that asks for HTML": {http.Header{"Accept": {"text/html"}, "Sec-Fetch-Mode": {"cors"}}, false},
		"a program":                   {http.Header{"Accept": {"application/json"}}, false},
		"nobody in particular":        {http.Header{}, false},
	} {
		if got := WantsPage(c.header); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOnlyTheBrowserKeepsAnAnswer(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "private",
		"no-cache":                           "private, no-cache",
		"no-store":                           "private, no-store",
		"public, max-age=31536000":           "private, max-age=31536000",
		"Public,S-MaxAge=60, immutable":      "private, immutable",
		"private":                            "private",
		`max-age=1, no-cache="a, b", pUBLIC`: `private, max-age=1, no-cache="a, b"`,
	} {
		h := http.Header{"Cdn-Cache-Control": {"max-age=60"}, "Surrogate-Control": {"max-age=60"}}
		if in != "" {
			h.Set("Cache-Control", in)
		}
		Private(h)
		if got := h.Get("Cache-Control"); got != want || len(h) != 1 {
			t.Errorf("%q becomes %q; %v", in, got, h)
		}
	}
}
