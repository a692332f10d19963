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
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRequestsForALink(t *testing.T) {
	for body, want := range map[string]*Request{
		"":                            {Path: "/", ExpirationSeconds: 43200},
		" \n":                         {Path: "/", ExpirationSeconds: 43200},
		"{}":                          {Path: "/", ExpirationSeconds: 43200},
		`{"path":"/a?b=c#d"}`:         {Path: "/a?b=c#d", ExpirationSeconds: 43200},
		`{"path":"/a//b"}`:            {Path: "/a//b", ExpirationSeconds: 43200},
		`{"expirationSeconds":43200}`: {Path: "/", ExpirationSeconds: 43200},
		`{"expirationSeconds":60}`:    {Path: "/", ExpirationSeconds: 60},
		`{"expirationSeconds":43201}`: nil,
		`{"expirationSeconds":59}`:    nil,
		`{"expirationSeconds":0}`:     nil,
		`{"expirationSeconds":-1}`:    nil,
		`{"expirationSeconds":1.5}`:   nil,
		`{"renewURL":"https://hub.example/renew?box=1"}`:                                   {"/", 43200, "https://hub.example/renew?box=1"},
		`{"renewURL":"http://127.0.0.1:7777/x"}`:                                           {"/", 43200, "http://127.0.0.1:7777/x"},
		`{"renewURL":"http://localhost:7777/x"}`:                                           {"/", 43200, "http://localhost:7777/x"},
		`{"renewURL":"http://[::1]:7777/"}`:                                                {"/", 43200, "http://[::1]:7777/"},
		`{"renewURL":"http://hub.example/"}`:                                               nil,
		`{"renewURL":"http://localhost.evil.example/"}`:                                    nil,
		`{"renewURL":"javascript:alert(1)"}`:                                               nil,
		`{"renewURL":"//hub.example/"}`:                                                    nil,
		`{"renewURL":"/renew"}`:                                                            nil,
		`{"renewURL":"https:///renew"}`:                                                    nil,
		`{"renewURL":"https:opaque"}`:                                                      nil,
		`{"renewURL":"https://alice:secret@hub.example/"}`:                                 nil,
		`{"renewURL":"https://hub.example/#x"}`:                                            nil,
		`{"renewURL":"https://hub.example/a b"}`:                                           nil,
		`{"renewURL":"https://hub.example/\r\nSet-Cookie: a=b"}`:                           nil,
		`{"renewURL":"https://hub.example/` + strings.Repeat("a", MaxRenewURLBytes) + `"}`: nil,
		`{"renewURL":1}`:                                                                   nil,
		`{"path":""}`:                                                                      nil,
		`{"path":"a"}`:                                                                     nil,
		`{"path":"//evil.example"}`:                                                        nil,
		`{"path":"/\\evil.example"}`:                                                       nil,
		`{"path":"/\t/evil.example"}`:                                                      nil,
		`{"path":"/\r\nSet-Cookie: a=b"}`:                                                  nil,
		`{"path":"/ä"}`:                                                                    nil,
		`{"path":"/%zz"}`:                                                                  nil,
		`{"path":"https://evil.example/"}`:                                                 nil,
		`{"path":"/.sandbar/enter?link=x"}`:                                                nil,
		`{"path":"/%2esandbar/enter"}`:                                                     nil,
		`{"path":"/.sandbar"}`:                                                             nil,
		`{"other":1}`:                                                                      nil,
		`{} {}`:                                                                            nil,
		`[]`:                                                                               nil,
		`{`:                                                                                nil,
		`{"path":"/` + strings.Repeat("a", MaxPathBytes) + `"}`:                            nil,
		strings.Repeat(" ", MaxRequestBytes+1):                                             nil,
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

func TestWhereASessionIsRenewed(t *testing.T) {
	for renew, want := range map[string]string{
		"":                                  "",
		"https://hub.example/":              "https://hub.example/?path=%2Fa%3Fb%3Dc",
		"https://hub.example/r?box=1&x=%2F": "https://hub.example/r?box=1&path=%2Fa%3Fb%3Dc&x=%2F",
		"https://hub.example/?path=/other":  "https://hub.example/?path=%2Fa%3Fb%3Dc",
	} {
		if got := (&Claims{Renew: renew}).RenewAt("/a?b=c"); got != want {
			t.Errorf("%s: %s, want %s", renew, got, want)
		}
	}
}

func TestASessionEndsAtTheFirstOfItsEnds(t *testing.T) {
	issued := time.Unix(1000, 500)
	for expires, want := range map[int64]time.Time{1060: time.Unix(1060, 0), 5000: issued.Add(15 * time.Minute)} {
		c := &Claims{IssuedAt: issued.UnixNano(), Expires: expires}
		if got := c.Ends(15 * time.Minute); !got.Equal(want) {
			t.Errorf("%d: %v, want %v", expires, got, want)
		}
	}
}
