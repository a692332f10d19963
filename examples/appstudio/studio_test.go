// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
)

// studioOf is a studio in front of a kcp that knows the token "good", which is alice's.
func studioOf(t *testing.T) (*httptest.Server, *sessions) {
	t.Helper()
	kcp := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","message":"Unauthorized","code":401}`)
			return
		}
		if !strings.HasPrefix(r.URL.Path, "/clusters/root:alice/") {
			t.Errorf("asked for %s", r.URL.Path)
		}
		fmt.Fprint(w, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"alice"}}}`)
	}))
	t.Cleanup(kcp.Close)
	s, err := newSessions(kcp.URL, "", session.TrustStore{Path: filepath.Join(t.TempDir(), "trust.json")})
	if err != nil {
		t.Fatal(err)
	}
	s.ca = pemOf(kcp)
	server := httptest.NewServer(newStudio(s))
	t.Cleanup(server.Close)
	return server, s
}

// ask sends a request with a session's cookie and returns the status and the answer.
func ask(t *testing.T, server *httptest.Server, cookie *http.Cookie, method, path, body string, header ...string) (int, string, *http.Response) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if cookie != nil {
		req.AddCookie(cookie)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct{ Error, User string }
	_ = json.NewDecoder(res.Body).Decode(&answer) // a page is not JSON
	return res.StatusCode, answer.Error + answer.User, res
}

func TestASessionIsOfThePersonWhoLoggedIn(t *testing.T) {
	server, s := studioOf(t)
	if code, said, _ := ask(t, server, nil, "GET", "/api/session", ""); code != http.StatusUnauthorized || said != "log in first" {
		t.Errorf("without a session: %d %s", code, said)
	}
	for body, want := range map[string]int{
		`{"workspace":"root:alice","token":"bad"}`:     http.StatusUnauthorized,
		`{"workspace":"root:alice","token":""}`:        http.StatusBadRequest,
		`{"workspace":"../root","token":"good"}`:       http.StatusBadRequest,
		`{"workspace":"root:alice/x","token":"good"}`:  http.StatusBadRequest,
		`{"workspace":"root:alice","token":"good"`:     http.StatusBadRequest,
		strings.Repeat(" ", maxBody+1) + `{"token":1}`: http.StatusBadRequest,
	} {
		code, said, res := ask(t, server, nil, "POST", "/api/session", body)
		if code != want || said == "" || len(res.Cookies()) > 0 {
			t.Errorf("%.60s: %d %s, want %d and no cookie", body, code, said, want)
		}
	}
	code, said, res := ask(t, server, nil, "POST", "/api/session", `{"workspace":"root:alice","token":"good"}`)
	if code != http.StatusOK || said != "alice" || len(res.Cookies()) != 1 {
		t.Fatalf("login: %d %s %v", code, said, res.Cookies())
	}
	cookie := res.Cookies()[0]
	if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || strings.Contains(cookie.Value, "good") {
		t.Errorf("the cookie is %v", cookie)
	}
	if code, said, _ := ask(t, server, cookie, "GET", "/api/session", ""); code != http.StatusOK || said != "alice" {
		t.Errorf("with the session: %d %s", code, said)
	}
	if code, _, _ := ask(t, server, cookie, "DELETE", "/api/session", "", "Sec-Fetch-Site", "cross-site"); code != http.StatusForbidden {
		t.Errorf("what another site sends: %d", code)
	}
	s.people[cookie.Value].ends = time.Now()
	if code, _, _ := ask(t, server, cookie, "GET", "/api/session", ""); code != http.StatusUnauthorized {
		t.Errorf("a session that has ended: %d", code)
	}
	if code, _, _ := ask(t, server, cookie, "DELETE", "/api/session", ""); code != http.StatusNoContent || len(s.people) != 0 {
		t.Errorf("logout: %d, %d sessions are left", code, len(s.people))
	}
}

func TestSessionsAreBounded(t *testing.T) {
	server, s := studioOf(t)
	for i := range maxSessions {
		s.people[strconv.Itoa(i)] = &person{ends: time.Now().Add(time.Hour), Sandboxes: &client.Client{}}
	}
	const login = `{"workspace":"root:alice","token":"good"}`
	if code, said, _ := ask(t, server, nil, "POST", "/api/session", login); code != http.StatusServiceUnavailable || !strings.Contains(said, "1000 sessions") {
		t.Errorf("with all sessions in use: %d %s", code, said)
	}
	s.people["0"].ends = time.Now().Add(-time.Second)
	if code, said, _ := ask(t, server, nil, "POST", "/api/session", login); code != http.StatusOK {
		t.Errorf("when one has ended: %d %s", code, said)
	}
}

func TestThePageRunsItsOwnScriptsAlone(t *testing.T) {
	server, _ := studioOf(t)
	code, _, res := ask(t, server, nil, "GET", "/", "")
	if csp := res.Header.Get("Content-Security-Policy"); code != http.StatusOK || !strings.Contains(csp, "default-src 'self'") || !strings.Contains(csp, "frame-ancestors 'none'") {
		t.Errorf("%d, policy %q", code, csp)
	}
}

// What kcp or a data plane refuses reaches the browser with its own status.
func TestStatusOfAnError(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{errNoSession, 401},
		{requestError("x"), 400},
		{&client.CallError{Code: 409}, 409},
		{fmt.Errorf("creating: %w", apierrors.NewForbidden(schema.GroupResource{}, "x", nil)), 403},
		{fmt.Errorf("reading: %w", &client.UntrustedError{Origin: "https://elsewhere"}), 403},
		{&client.NotServedError{}, 409},
		{&http.MaxBytesError{}, 413},
		{errors.New("the network"), 502},
	} {
		if got := statusOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestOnlyAnHTTPSAddressOfKcp(t *testing.T) {
	for _, address := range []string{"http://kcp.example.com", "kcp.example.com", "", "https://"} {
		if _, err := newSessions(address, "", session.TrustStore{}); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}

func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
