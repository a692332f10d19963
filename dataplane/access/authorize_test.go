// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
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
			if refused := Judge(tenant.Answer{Outcome: c.review}, tenant.Answer{Outcome: c.read}, c.declared); refused != nil {
				got = refused.Code
			}
			if got != c.code {
				t.Errorf("got %d", got)
			}
		})
	}
}

// kcp hangs when it is asked whose a token is: that question ends when the one does that waits for it,
// and its caller has not left.
func TestAKcpThatHangsIsNoCallerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, slots := NewMetrics(prometheus.NewRegistry()), semaphore.NewWeighted(1)
		limits := &limit.Limits{}
		limits.SetDefaults()
		hangs := func(ctx context.Context, _ tenant.Caller, _ string) (authenticationv1.UserInfo, tenant.Answer) {
			<-ctx.Done()
			return authenticationv1.UserInfo{}, tenant.Answer{Outcome: tenant.Unavailable, Err: ctx.Err()}
		}
		callers, err := NewCallerLimiter(func() *limit.Limits { return limits })
		if err != nil {
			t.Fatal(err)
		}
		who, err := newTokenReviewer(hangs, callers, slots, Options{}, m)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), reviewTimeout)
			_, refused := who.identify(ctx, Question{Caller: tenant.Bearer("a-token"), From: "192.0.2.1"}, time.Time{})
			cancel()
			if refused == nil || refused.Code != http.StatusServiceUnavailable {
				t.Fatalf("got %v", refused)
			}
		}
	})
}

func TestAnswersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(nil, nil, Options{CacheSize: 10, Concurrency: 1}, nil, NewMetrics(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		kept := func(name string) bool {
			_, ok := a.cached(Question{Verb: name}.key(), time.Time{})
			return ok
		}
		a.keep(Question{Verb: "allow"}.key(), answer{})
		a.keep(Question{Verb: "deny"}.key(), answer{refused: refusal.Forbidden()})
		a.keep(Question{Verb: "error"}.key(), answer{refused: kcpUnavailable(tenant.Answer{})})
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

// Two questions that kcp may answer differently never share an answer.
func TestEachPartOfAQuestionIsInItsKey(t *testing.T) {
	base := Question{
		Caller: tenant.Bearer("token"), Subresource: "log", Verb: "get",
		Ref: tenant.Ref{Workspace: "root:a", Group: "sandbar.dev", Version: "v1", Resource: "sandboxrunners", Namespace: "default", Name: "demo"},
	}
	for name, c := range map[string]struct {
		change func(*Question)
		same   bool
	}{
		"the token":               {func(q *Question) { q.Caller = tenant.Bearer("other") }, false},
		"a name in place of it":   {func(q *Question) { q.Caller = tenant.Subject(authenticationv1.UserInfo{Username: "token"}) }, false},
		"the workspace":           {func(q *Question) { q.Ref.Workspace = "root:b" }, false},
		"the group":               {func(q *Question) { q.Ref.Group = "other.dev" }, false},
		"the version":             {func(q *Question) { q.Ref.Version = "v2" }, false},
		"the resource":            {func(q *Question) { q.Ref.Resource = "others" }, false},
		"the namespace":           {func(q *Question) { q.Ref.Namespace = "other" }, false},
		"the name":                {func(q *Question) { q.Ref.Name = "other" }, false},
		"the subresource":         {func(q *Question) { q.Subresource = "proxy" }, false},
		"the verb":                {func(q *Question) { q.Verb = "create" }, false},
		"whether it is declared":  {func(q *Question) { q.Declared = true }, false},
		"the workspace alone":     {func(q *Question) { q.WorkspaceOnly = true }, false},
		"where it comes from":     {func(q *Question) { q.From = "192.0.2.1:1" }, true},
		"when a link was issued":  {func(q *Question) { q.LinkIssued = time.Unix(1, 0) }, true},
		"a letter that moves":     {func(q *Question) { q.Ref.Group, q.Ref.Version = "sandbar.devv", "1" }, false},
		"a letter that moves far": {func(q *Question) { q.Subresource, q.Verb = "lo", "gget" }, false},
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
		make1 := func(token, ws, res, ns, name, sub, verb string) Question {
			return Question{
				Caller: tenant.Bearer(token), Subresource: sub, Verb: verb,
				Ref: tenant.Ref{Workspace: ws, Resource: res, Namespace: ns, Name: name},
			}
		}
		a, b := make1(t1, w1, r1, ns1, n1, s1, v1), make1(t2, w2, r2, ns2, n2, s2, v2)
		same := t1 == t2 && a.Ref == b.Ref && s1 == s2 && v1 == v2
		if same != (a.key() == b.key()) {
			t.Errorf("%q %+v and %q %+v: equal %t, keys equal %t", t1, a, t2, b, same, a.key() == b.key())
		}
	})
}
