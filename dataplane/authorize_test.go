// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/tenant"
)

func TestJudge(t *testing.T) {
	const (
		yes, no, missing, nobody, silent = tenant.Allowed, tenant.Denied, tenant.NotFound, tenant.Unauthorized, tenant.Unavailable
		declared, unknown                = true, false
	)
	for _, c := range []struct {
		review, read tenant.Outcome
		declared     bool
		code         int // 0 goes on
	}{
		{yes, yes, declared, 0},
		{yes, missing, declared, 404},
		{yes, no, declared, 403},
		{yes, nobody, declared, 401},
		{yes, silent, declared, 503},
		{no, yes, declared, 403},
		{no, missing, declared, 403},
		{no, no, declared, 403},
		{no, silent, declared, 403},
		{no, nobody, declared, 401},
		{no, yes, unknown, 404},
		{no, missing, unknown, 404},
		{no, no, unknown, 403},
		{no, silent, unknown, 503},
		{nobody, yes, declared, 401},
		{silent, yes, declared, 503},
		{silent, no, declared, 503},
		{silent, missing, unknown, 503},
		{silent, nobody, declared, 401},
	} {
		t.Run(fmt.Sprintf("review %v and read %v of a verb declared %t is %d", c.review, c.read, c.declared, c.code), func(t *testing.T) {
			got := 0
			if refused := judge(tenant.Answer{Outcome: c.review}, tenant.Answer{Outcome: c.read}, c.declared); refused != nil {
				got = refused.code
			}
			if got != c.code {
				t.Errorf("got %d", got)
			}
		})
	}
}

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
		mode  AuthorizationMode
		right []string
		path  string
		code  int
	}{
		{AuthorizeBoth, []string{"get sandboxrunners", "get sandboxrunners/log"}, demo, 200},
		{AuthorizeBoth, []string{"get sandboxrunners"}, demo, 403},
		{AuthorizeBoth, []string{"get sandboxrunners/log"}, demo, 403},
		{AuthorizeBoth, []string{"get sandboxrunners/log"}, "/dataplane/clusters/cluster1/sandboxrunners/demo/", 403},
		{AuthorizeInstanceGet, []string{"get sandboxrunners"}, demo, 200},
		{AuthorizeInstanceGet, []string{"get sandboxrunners/log"}, demo, 403},
		{AuthorizeSubresource, []string{"get sandboxrunners/log"}, "/dataplane/clusters/cluster1/sandboxrunners/demo/", 200},
		{AuthorizeSubresource, []string{"get sandboxrunners/log"}, demo, 403},
		{AuthorizeSubresource, nil, "/dataplane/clusters/cluster1/sandboxrunners/demo/", 403},
		{AuthorizeSubresource, []string{"get sandboxrunners"}, demo, 403},
		{AuthorizeSubresource, []string{"get sandboxrunners/log"}, "/dataplane/clusters/cluster1/sandboxrunners/missing/", 404},
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

func TestAnswersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := newAuthorizer(nil, nil, Options{AuthorizationCacheSize: 10, AuthorizationConcurrency: 1}, nil, newMetrics("test"))
		if err != nil {
			t.Fatal(err)
		}
		kept := func(name string) bool {
			_, ok := a.cached(question{verb: name}.key(), time.Time{})
			return ok
		}
		a.keep(question{verb: "allow"}.key(), answer{})
		a.keep(question{verb: "deny"}.key(), answer{refused: forbidden()})
		a.keep(question{verb: "error"}.key(), answer{refused: kcpUnavailable(tenant.Answer{})})
		for _, c := range []struct {
			after time.Duration
			want  string
		}{{0, "allow deny"}, {denyTTL, "allow"}, {allowTTL - denyTTL, ""}} {
			time.Sleep(c.after)
			var got []string
			for _, name := range []string{"allow", "deny", "error"} {
				if kept(name) {
					got = append(got, name)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("kept %v, want %q", got, c.want)
			}
		}
	})
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
		w.server.metrics.handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return strings.Contains(rec.Body.String(), `sandbar_dataplane_authorization_cache_total{result="miss"} 2`)
	})
	conn.Close()
	eventually(t, "the first caller has left", func() bool { return w.lastReason() == causeClientGone })
	close(hold)
	if code := <-answered; code != 200 {
		t.Errorf("the second caller got %d", code)
	}
}

// Two questions that kcp may answer differently never share an answer.
func TestEachPartOfAQuestionIsInItsKey(t *testing.T) {
	base := question{
		caller: tenant.Bearer("token"), subresource: "log", verb: "get",
		ref: tenant.Ref{Workspace: "root:a", Group: "sandbar.dev", Version: "v1", Resource: "sandboxrunners", Namespace: "default", Name: "demo"},
	}
	for name, c := range map[string]struct {
		change func(*question)
		same   bool
	}{
		"the token":               {func(q *question) { q.caller = tenant.Bearer("other") }, false},
		"a name in place of it":   {func(q *question) { q.caller = tenant.Subject(authenticationv1.UserInfo{Username: "token"}) }, false},
		"the workspace":           {func(q *question) { q.ref.Workspace = "root:b" }, false},
		"the group":               {func(q *question) { q.ref.Group = "other.dev" }, false},
		"the version":             {func(q *question) { q.ref.Version = "v2" }, false},
		"the resource":            {func(q *question) { q.ref.Resource = "others" }, false},
		"the namespace":           {func(q *question) { q.ref.Namespace = "other" }, false},
		"the name":                {func(q *question) { q.ref.Name = "other" }, false},
		"the subresource":         {func(q *question) { q.subresource = "proxy" }, false},
		"the verb":                {func(q *question) { q.verb = "create" }, false},
		"whether it is declared":  {func(q *question) { q.declared = true }, false},
		"the workspace alone":     {func(q *question) { q.workspaceOnly = true }, false},
		"where it comes from":     {func(q *question) { q.from = "192.0.2.1:1" }, true},
		"when a link was issued":  {func(q *question) { q.linkIssued = time.Unix(1, 0) }, true},
		"a letter that moves":     {func(q *question) { q.ref.Group, q.ref.Version = "sandbar.devv", "1" }, false},
		"a letter that moves far": {func(q *question) { q.subresource, q.verb = "lo", "gget" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			q := base
			c.change(&q)
			if same := q.key() == base.key(); same != c.same {
				t.Errorf("the keys are the same: %t", same)
			}
		})
	}
}

func FuzzReviewKey(f *testing.F) {
	f.Add("token", "root:a", "sandboxrunners", "ns", "name", "log", "get", "token", "root:a", "sandboxrunners", "ns", "nam", "elog", "get")
	f.Add("t", "a", "bc", "d", "e", "f", "g", "t", "ab", "c", "d", "e", "f", "g")
	f.Add("t\x00a", "b", "", "", "", "", "", "t", "a\x00b", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, t1, w1, r1, ns1, n1, s1, v1, t2, w2, r2, ns2, n2, s2, v2 string) {
		make1 := func(token, ws, res, ns, name, sub, verb string) question {
			return question{
				caller: tenant.Bearer(token), subresource: sub, verb: verb,
				ref: tenant.Ref{Workspace: ws, Resource: res, Namespace: ns, Name: name},
			}
		}
		a, b := make1(t1, w1, r1, ns1, n1, s1, v1), make1(t2, w2, r2, ns2, n2, s2, v2)
		same := t1 == t2 && a.ref == b.ref && s1 == s2 && v1 == v2
		if same != (a.key() == b.key()) {
			t.Errorf("%q %+v and %q %+v: equal %t, keys equal %t", t1, a, t2, b, same, a.key() == b.key())
		}
	})
}
