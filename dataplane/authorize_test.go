// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

func TestOutcomesOfAuthorization(t *testing.T) {
	w := newWorld(t, recorder())
	w.kcp.grant("viewer", "get sandboxrunners", "get sandboxrunners/log")
	w.kcp.grant("syncer-who-may-not-read", "create sandboxrunners/sync")
	w.kcp.grant("member")
	w.kcp.set(func() { w.kcp.rights["stranger"] = map[string]bool{} })
	short := func(ws, name, verb string) string {
		return "/dataplane/clusters/" + ws + "/sandboxrunners/" + name + "/" + verb
	}
	const ws = "root:acme:dev"
	for name, c := range map[string]struct {
		token, method, path string
		code                int
	}{
		"no token is 401":                                 {"", "GET", short(ws, "demo", "log"), 401},
		"a token that kcp does not know is 401":           {"foreign", "GET", short(ws, "demo", "log"), 401},
		"a viewer may read the log":                       {"viewer", "GET", short(ws, "demo", "log"), 200},
		"HEAD asks like GET":                              {"viewer", "HEAD", short(ws, "demo", "log"), 200},
		"a viewer may not sync":                           {"viewer", "POST", short(ws, "demo", "sync"), 403},
		"the right for the verb without get is 403":       {"syncer-who-may-not-read", "POST", short(ws, "demo", "sync"), 403},
		"a member without rights is 403":                  {"member", "GET", short(ws, "demo", "log"), 403},
		"a stranger is 403":                               {"stranger", "GET", short(ws, "demo", "log"), 403},
		"an unknown workspace is 403":                     {"viewer", "GET", short("root:nowhere", "demo", "log"), 403},
		"a missing instance is 404 for a viewer":          {"viewer", "GET", short(ws, "missing", "log"), 404},
		"a missing instance is 403 for a member":          {"member", "GET", short(ws, "missing", "log"), 403},
		"an unknown verb is 404 for who may get":          {"viewer", "GET", short(ws, "demo", "nosuch"), 404},
		"an unknown verb is 404 for an administrator":     {adminToken, "GET", short(ws, "demo", "nosuch"), 404},
		"an unknown verb is 403 for a member":             {"member", "GET", short(ws, "demo", "nosuch"), 403},
		"a wrong method is 405 for an administrator":      {adminToken, "POST", short(ws, "demo", "log"), 405},
		"a wrong method is 403 for a viewer":              {"viewer", "POST", short(ws, "demo", "log"), 403},
		"an unknown resource is 404 for an administrator": {adminToken, "GET", "/dataplane/clusters/" + ws + "/nosuch/demo/log", 404},
		"an unknown resource is 403 for a member":         {"member", "GET", "/dataplane/clusters/" + ws + "/nosuch/demo/log", 403},
		"another version of the kind is 404":              {adminToken, "GET", "/clusters/" + ws + "/apis/sandbar.dev/v9/namespaces/default/sandboxrunners/demo/log", 404},
		"another namespace is 404":                        {adminToken, "GET", "/dataplane/clusters/" + ws + "/namespaces/other/sandboxrunners/demo/log", 404},
		"a method of one's own is 405":                    {adminToken, "BREW", short(ws, "demo", "log"), 405},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := w.do(c.method, c.path, c.token, nil)
			if c.code == 200 {
				if res.StatusCode != http.StatusOK {
					t.Fatalf("got %d %s", res.StatusCode, body)
				}
				return
			}
			wantStatus(t, res, body, c.code)
			if got := res.Header.Get("WWW-Authenticate"); (c.code == 401) != (got == "Bearer") {
				t.Errorf("WWW-Authenticate is %q", got)
			}
			if got := res.Header.Get("Allow"); (c.code == 405) != (got != "") {
				t.Errorf("Allow is %q", got)
			}
		})
	}
}

// A caller who may not know gets the same bytes for what exists and what does not.
func TestRefusalsDoNotTellWhatExists(t *testing.T) {
	w := newWorld(t, recorder())
	w.kcp.grant("member")
	var first string
	for _, path := range []string{
		"root:acme:dev/sandboxrunners/demo/log", "root:acme:dev/sandboxrunners/missing/log", "root:acme:dev/sandboxrunners/demo/nosuch",
		"root:acme:dev/nosuch/demo/log", "root:nowhere/sandboxrunners/demo/log", "cluster1/sandboxrunners/demo/proxy",
	} {
		res, body := w.do("GET", "/dataplane/clusters/"+path, "member", nil)
		res.Header.Del("Date")
		if got := fmt.Sprint(res.StatusCode, res.Header, body); first == "" {
			first = got
		} else if got != first {
			t.Errorf("%s answers differently:\n%s\n%s", path, got, first)
		}
	}
}

// Proxies were led past their check by a query, by the path that another proxy is said to have seen,
// and by the name of a prober (oauth2-proxy CVE-2025-54576, CVE-2026-40575, CVE-2026-34457).
func TestAccessDependsOnNothingThatACallerCanSayOfItself(t *testing.T) {
	w := newWorld(t, recorder())
	w.kcp.grant("member")
	header := func(name string, values ...string) map[string][]string { return map[string][]string{name: values} }
	for name, c := range map[string]struct {
		query  string
		header map[string][]string
	}{
		"a query that is a path":         {"/livez", nil},
		"a query that names a path":      {"path=/livez&url=/readyz", nil},
		"a query with a token":           {"access_token=" + adminToken + "&token=" + adminToken, nil},
		"the path of another proxy":      {"", header("X-Forwarded-Uri", "/livez")},
		"the path before a rewrite":      {"", map[string][]string{"X-Original-Url": {"/livez"}, "X-Rewrite-Url": {"/livez"}, "X-Original-Uri": {"/livez"}}},
		"the method of another":          {"", map[string][]string{"X-Http-Method-Override": {"OPTIONS"}, "X-Forwarded-Method": {"OPTIONS"}}},
		"an address that is trusted":     {"", map[string][]string{"X-Forwarded-For": {"127.0.0.1"}, "X-Real-Ip": {"127.0.0.1"}}},
		"the prober of Kubernetes":       {"", header("User-Agent", "kube-probe/1.36")},
		"the prober of a load balancer":  {"", header("User-Agent", "GoogleHC/1.0")},
		"a name that a proxy would give": {"", map[string][]string{"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"}, "Impersonate-User": {"system:admin"}, "X-Forwarded-User": {"admin"}}},
	} {
		for token, code := range map[string]int{"": http.StatusUnauthorized, "member": http.StatusForbidden} {
			t.Run(fmt.Sprintf("%s, and %q as a token, is %d", name, token, code), func(t *testing.T) {
				res, body := w.do("GET", demo+"proxy?"+c.query, token, nil, func(r *http.Request) { maps.Copy(r.Header, c.header) })
				wantStatus(t, res, body, code)
			})
		}
	}
}

func TestAuthorizationModes(t *testing.T) {
	for _, c := range []struct {
		mode  access.Mode
		right []string
		path  string
		code  int
	}{
		{access.Both, []string{"get sandboxrunners", "get sandboxrunners/log"}, demo, 200},
		{access.Both, []string{"get sandboxrunners"}, demo, 403},
		{access.Both, []string{"get sandboxrunners/log"}, demo, 403},
		{access.Both, []string{"get sandboxrunners/log"}, "/dataplane/clusters/cluster1/sandboxrunners/demo/", 403},
		{access.InstanceGet, []string{"get sandboxrunners"}, demo, 200},
		{access.InstanceGet, []string{"get sandboxrunners/log"}, demo, 403},
		{access.Subresource, []string{"get sandboxrunners/log"}, "/dataplane/clusters/cluster1/sandboxrunners/demo/", 200},
		{access.Subresource, []string{"get sandboxrunners/log"}, demo, 403},
		{access.Subresource, nil, "/dataplane/clusters/cluster1/sandboxrunners/demo/", 403},
		{access.Subresource, []string{"get sandboxrunners"}, demo, 403},
		{access.Subresource, []string{"get sandboxrunners/log"}, "/dataplane/clusters/cluster1/sandboxrunners/missing/", 404},
	} {
		t.Run(fmt.Sprintf("%s with %v on %s is %d", c.mode, c.right, c.path, c.code), func(t *testing.T) {
			w := newWorld(t, recorder(), func(s *setup) { s.opts.AuthorizationMode = c.mode })
			w.kcp.grant("caller", c.right...)
			if res, body := w.do("GET", c.path+"log", "caller", nil); res.StatusCode != c.code {
				t.Errorf("got %d %s", res.StatusCode, body)
			}
		})
	}
}

func TestAKcpThatDoesNotAnswerAllowsNothing(t *testing.T) {
	w := newWorld(t, recorder())
	w.kcp.set(func() { w.kcp.down = true })
	res, body := w.do("GET", demo+"log", adminToken, nil)
	wantStatus(t, res, body, http.StatusServiceUnavailable)
	if res.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	// An error is not kept: the next request is answered as soon as kcp is back.
	w.kcp.set(func() { w.kcp.down = false })
	if res, body := w.do("GET", demo+"log", adminToken, nil); res.StatusCode != http.StatusOK {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}

func TestAnswersAreKeptAndSharedWhileTheyLast(t *testing.T) {
	w := newWorld(t, recorder())
	for range 50 {
		if res, body := w.do("GET", demo+"log", adminToken, nil); res.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s", res.StatusCode, body)
		}
	}
	if gets, reviews := w.kcp.gets.Load(), w.kcp.reviews.Load(); gets != 1 || reviews != 1 {
		t.Errorf("50 requests asked kcp %d times for the instance and %d times for the right", gets, reviews)
	}
	if res, _ := w.do("POST", demo+"sync", adminToken, nil); res.StatusCode != http.StatusOK || w.kcp.reviews.Load() != 2 {
		t.Error("another verb used the same answer")
	}
}

func TestACallerWhoLeavesDoesNotCancelTheOthersAnswer(t *testing.T) {
	w := newWorld(t, recorder())
	hold := make(chan struct{})
	w.kcp.set(func() { w.kcp.hold = hold })
	conn := w.dial()
	fmt.Fprintf(conn, "GET %slog HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", demo, adminToken)
	// hold is received from twice by kcp, for the two questions. Giving one is proof that
	// the flight has begun.
	hold <- struct{}{}
	answered := make(chan int)
	go func() {
		res, _ := w.do("GET", demo+"log", adminToken, nil)
		answered <- res.StatusCode
	}()
	eventually(t, "the second caller waits for the same answer", func() bool {
		rec := httptest.NewRecorder()
		w.server.metrics.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return strings.Contains(rec.Body.String(), `sandbar_dataplane_authorization_cache_total{result="miss"} 2`)
	})
	conn.Close()
	eventually(t, "the first caller has left", func() bool { return w.lastReason() == refusal.CauseClientGone })
	close(hold)
	if code := <-answered; code != 200 {
		t.Errorf("the second caller got %d", code)
	}
}
