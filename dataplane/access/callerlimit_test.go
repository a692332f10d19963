// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

func newTestCallerLimiter(t *testing.T, change func(*limit.Limits)) *CallerLimiter {
	t.Helper()
	var limits limit.Limits
	limits.SetDefaults()
	change(&limits)
	l, err := NewCallerLimiter(func() *limit.Limits { return &limits })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// caller is who puts a question in a test: "user:" and a name, or an address.
func caller(who string) CountedCaller {
	if name, verified := strings.CutPrefix(who, "user:"); verified {
		return CountedUser("", authenticationv1.UserInfo{Username: name})
	}
	return CountedAddress(who)
}

// put has a caller put a question, to which kcp gives an answer.
func put(l *CallerLimiter, who CountedCaller, answer *refusal.Error) *refusal.Error {
	leave, refused := l.enter(who)
	if refused == nil {
		leave(answer)
	}
	return refused
}

func TestWhoIsToldNoTooOftenIsRefused(t *testing.T) {
	bad, denied, missing, broken := refusal.Unauthorized(refusal.CauseBadIdentity), refusal.Forbidden(), refusal.NotFound(refusal.CauseNoInstance), refusal.Unavailable(refusal.CauseKcp, "", 0, nil)
	type call struct {
		who    string
		answer *refusal.Error
	}
	for name, c := range map[string]struct {
		before []call
		next   string
		cause  string
		told   string
	}{
		"unknown tokens of one address share a bucket": {[]call{{"x", bad}, {"x", bad}, {"x", bad}, {"x", bad}}, "x", refusal.CauseUnverified, "more than 20 tokens per second (4 at once)"},
		"which is wider than that of a caller":         {[]call{{"x", bad}, {"x", bad}, {"x", bad}}, "x", "", ""},
		"another address has its own":                  {[]call{{"x", bad}, {"x", bad}, {"x", bad}, {"x", bad}}, "y", "", ""},
		"who is verified does not pay for them":        {[]call{{"x", bad}, {"x", bad}, {"x", bad}, {"x", bad}}, "user:known", "", ""},
		"who is verified has a bucket":                 {[]call{{"user:a", denied}, {"user:a", missing}}, "user:a", refusal.CauseDeniedRate, "more than 10 requests per second (2 at once)"},
		"nor does one pay for another":                 {[]call{{"user:a", denied}, {"user:a", denied}}, "user:b", "", ""},
		"nor strangers for one who is verified":        {[]call{{"user:a", denied}, {"user:a", denied}}, "x", "", ""},
		"who is allowed pays nothing":                  {[]call{{"user:a", nil}, {"user:a", nil}, {"user:a", nil}}, "user:a", "", ""},
		"nobody pays for a kcp that does not answer":   {[]call{{"user:a", broken}, {"user:a", broken}, {"user:a", broken}, {"x", broken}}, "user:a", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestCallerLimiter(t, func(l *limit.Limits) {
					l.DeniedRate, l.DeniedBurst, l.UnverifiedRate, l.UnverifiedBurst = 10, 2, 20, 4
				})
				for _, before := range c.before {
					if refused := put(l, caller(before.who), before.answer); refused != nil {
						t.Fatal(refused)
					}
				}
				wantRefusedForAWhile(t, l, caller(c.next), c.cause, c.told)
			})
		})
	}
}

// wantRefusedForAWhile puts a question that is refused for a cause, and is not after waiting as told;
// without a cause it is not refused.
func wantRefusedForAWhile(t *testing.T, l *CallerLimiter, who CountedCaller, cause, told string) {
	t.Helper()
	refused := put(l, who, nil)
	if cause == "" {
		if refused != nil {
			t.Errorf("refused: %v", refused)
		}
		return
	}
	if refused == nil || refused.Cause != cause || refused.Code != http.StatusTooManyRequests || !strings.Contains(refused.Message, told) {
		t.Fatalf("got %+v", refused)
	}
	time.Sleep(refused.RetryAfter)
	if refused := put(l, who, nil); refused != nil {
		t.Errorf("refused after waiting as told: %v", refused)
	}
}

// A right that is there costs kcp as much as one that is not: whoever has many tokens, or uses many
// instances, could ask without end.
func TestAllQuestionsOfACallerHaveARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestCallerLimiter(t, func(l *limit.Limits) { l.QuestionRate, l.QuestionBurst = 10, 3 })
		for range 3 {
			if refused := put(l, caller("user:a"), nil); refused != nil {
				t.Fatal(refused)
			}
		}
		wantRefusedForAWhile(t, l, caller("user:a"), refusal.CauseQuestionRate, "more than 10 requests per second (3 at once)")
		if refused := put(l, caller("user:b"), nil); refused != nil {
			t.Errorf("another caller is refused: %v", refused)
		}
		for range 10 {
			if refused := put(l, caller("x"), nil); refused != nil {
				t.Errorf("an address, whose good tokens cost nothing, is refused: %v", refused)
			}
		}
	})
}

func TestWhoIsOneCaller(t *testing.T) {
	account := func(name, uid, cluster string) authenticationv1.UserInfo {
		return authenticationv1.UserInfo{Username: name, UID: uid, Extra: map[string]authenticationv1.ExtraValue{extraClusterName: {cluster}}}
	}
	alice := authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"a"}}
	sa := account("system:serviceaccount:default:one", "u1", "c1")
	for name, c := range map[string]struct {
		a, b             authenticationv1.UserInfo
		originA, originB string
		same             bool
	}{
		"a user":                                {alice, alice, "", "", true},
		"with other groups":                     {alice, authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"b", "c"}}, "", "", true},
		"with a scope":                          {alice, authenticationv1.UserInfo{Username: "alice", UID: "1", Extra: map[string]authenticationv1.ExtraValue{"authentication.kcp.io/scopes": {"cluster:x"}}}, "", "", true},
		"another of the name":                   {alice, authenticationv1.UserInfo{Username: "alice", UID: "2"}, "", "", false},
		"another":                               {alice, authenticationv1.UserInfo{Username: "bob", UID: "1"}, "", "", false},
		"a name that moves into the UID":        {authenticationv1.UserInfo{Username: "ab", UID: "c"}, authenticationv1.UserInfo{Username: "a", UID: "bc"}, "", "", false},
		"one whom a workspace calls alice":      {alice, alice, "", "root:mallory", false},
		"the same one in that workspace":        {alice, alice, "root:mallory", "root:mallory", true},
		"a service account":                     {sa, sa, "", "", true},
		"two service accounts of a workspace":   {sa, account("system:serviceaccount:other:two", "u2", "c1"), "", "", true},
		"of two workspaces":                     {sa, account("system:serviceaccount:default:one", "u1", "c2"), "", "", false},
		"seen from another workspace":           {sa, account("system:kcp:serviceaccount:c1:default:one", "", "c1"), "", "", true},
		"a user who says it is from a cluster":  {sa, account("alice", "1", "c1"), "", "", false},
		"a service account of no known cluster": {sa, authenticationv1.UserInfo{Username: sa.Username, UID: sa.UID}, "", "", false},
	} {
		if got := CountedUser(c.originA, c.a) == CountedUser(c.originB, c.b); got != c.same {
			t.Errorf("%s: one caller %t, want %t", name, got, c.same)
		}
	}
	if CountedAddress("alice") == CountedUser("", authenticationv1.UserInfo{Username: "alice"}) {
		t.Error("an address is counted as a user")
	}
}

func TestAddressesOfClients(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1234":               "192.0.2.1",
		"[::ffff:192.0.2.1]:1":         "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:1":     "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::1]:1":     "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":             "fe80::/64",
		"what no TCP connection gives": "what no TCP connection gives",
	} {
		if got := AddressOf(remote); got != want {
			t.Errorf("%s is counted as %s, want %s", remote, got, want)
		}
	}
}
