// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestForwardServesTheInstanceAtTheRoot(t *testing.T) {
	const prefix = "/dataplane/clusters/c1/namespaces/default/sandboxrunners/web/proxy"
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Location", prefix+"/login?a=b")
		rw.Header().Set("Set-Cookie", "s=1; HttpOnly; Path="+prefix+"/admin")
		_, _ = io.WriteString(rw, r.URL.RawQuery)
	})
	i, err := w.instance(t, "web")
	if err != nil {
		t.Fatal(err)
	}
	local := httptest.NewServer(i.Forward())
	defer local.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, local.URL+"/a%2Fb/c?q=1", nil)
	req.SetBasicAuth("user", "for the app")
	res, err := local.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "q=1" {
		t.Errorf("the app saw the query %q", body)
	}
	if got := w.requests[0]; got != "GET "+prefix+"/a%2Fb/c Bearer "+token {
		t.Errorf("the data plane saw %q", got)
	}
	if got := res.Header.Get("Location"); got != "/login?a=b" {
		t.Errorf("Location is %q", got)
	}
	if got := res.Header.Get("Set-Cookie"); got != "s=1; HttpOnly; Path=/admin" {
		t.Errorf("Set-Cookie is %q", got)
	}
}

func TestForwardRefusesWhatAForeignPageCouldCause(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) {})
	i, err := w.instance(t, "web")
	if err != nil {
		t.Fatal(err)
	}
	handler := i.Forward()
	for name, tc := range map[string]struct {
		host, origin string
		want         int
	}{
		"a program":                         {"127.0.0.1:8080", "", 200},
		"a page of this address":            {"localhost:8080", "http://localhost:8080", 200},
		"IPv6":                              {"[::1]:8080", "http://[::1]:8080", 200},
		"a name that resolves to loopback":  {"evil.example:8080", "", 403},
		"a page of another origin":          {"127.0.0.1:8080", "https://evil.example", 403},
		"a sandboxed page":                  {"127.0.0.1:8080", "null", 403},
		"a name that begins like localhost": {"localhost.evil.example", "", 403},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.Host = tc.host
			if tc.origin != "" {
				r.Header.Set("Origin", tc.origin)
			}
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, r)
			if rec.Code != tc.want {
				t.Errorf("got %d, want %d", rec.Code, tc.want)
			}
		})
	}
}
