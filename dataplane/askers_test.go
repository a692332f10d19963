// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/tenant"
)

func newTestAskers(t *testing.T, change func(*Limits)) *askers {
	t.Helper()
	var limits Limits
	limits.setDefaults()
	change(&limits)
	a, err := newAskers(func() *Limits { return &limits })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// put has a caller put a question, to which kcp gives an answer: a token, or behind "user:" the
// name by which a front proxy or a preview link vouches for the caller.
func put(t *testing.T, a *askers, who, from string, answer *refusal) *refusal {
	t.Helper()
	caller := tenant.Bearer(who)
	if name, vouched := strings.CutPrefix(who, "user:"); vouched {
		caller = tenant.Subject(authenticationv1.UserInfo{Username: name})
	}
	leave, refused := a.enter(question{caller: caller, from: from})
	if refused == nil {
		leave(answer)
	}
	return refused
}

func TestWhoIsToldNoTooOftenIsRefused(t *testing.T) {
	bad, denied, missing, broken := unauthorized(causeBadIdentity), forbidden(), notFound(causeNoInstance), unavailable(causeKcp, "", 0, nil)
	type call struct {
		token, from string
		answer      *refusal
	}
	for name, c := range map[string]struct {
		before  []call
		next    call
		refused bool
	}{
		"made-up tokens of one address share a bucket":           {[]call{{"a", "x", bad}, {"b", "x", bad}}, call{"c", "x", nil}, true},
		"another address has its own":                            {[]call{{"a", "x", bad}, {"b", "x", bad}}, call{"c", "y", nil}, false},
		"a credential that kcp knows does not pay for them":      {[]call{{"k", "x", nil}, {"a", "x", bad}, {"b", "x", bad}}, call{"k", "x", nil}, false},
		"a known credential has a bucket wherever it comes from": {[]call{{"k", "x", nil}, {"k", "x", denied}, {"k", "y", missing}}, call{"k", "z", nil}, true},
		"it does not spend that of its address":                  {[]call{{"k", "x", nil}, {"k", "x", denied}, {"k", "x", missing}}, call{"c", "x", nil}, false},
		"a credential that kcp rejects is no longer known":       {[]call{{"k", "x", nil}, {"k", "x", bad}, {"a", "x", bad}, {"b", "x", bad}}, call{"k", "x", nil}, true},
		"who is vouched for does not pay for strangers":          {[]call{{"a", "x", bad}, {"b", "x", bad}}, call{"user:new", "x", nil}, false},
		"nor do strangers pay for one":                           {[]call{{"user:new", "x", denied}, {"user:new", "x", denied}}, call{"c", "x", nil}, false},
		"nor one for another":                                    {[]call{{"user:a", "x", denied}, {"user:a", "x", denied}}, call{"user:b", "x", nil}, false},
		"who is vouched for has a bucket too":                    {[]call{{"user:a", "x", denied}, {"user:a", "y", denied}}, call{"user:a", "z", nil}, true},
		"who is allowed pays nothing":                            {[]call{{"k", "x", nil}, {"k", "x", nil}, {"k", "x", nil}}, call{"k", "x", nil}, false},
		"nobody pays for a kcp that does not answer":             {[]call{{"k", "x", broken}, {"k", "x", broken}, {"k", "x", broken}}, call{"k", "x", nil}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newTestAskers(t, func(l *Limits) { l.DeniedRate, l.DeniedBurst = 10, 2 })
				for _, before := range c.before {
					if refused := put(t, a, before.token, before.from, before.answer); refused != nil {
						t.Fatal(refused)
					}
				}
				refused := put(t, a, c.next.token, c.next.from, c.next.answer)
				if !c.refused {
					if refused != nil {
						t.Errorf("refused: %v", refused)
					}
					return
				}
				if refused == nil || refused.cause != causeDeniedRate || refused.code != http.StatusTooManyRequests || !strings.Contains(refused.message, "10 requests per second") {
					t.Fatalf("got %+v", refused)
				}
				time.Sleep(refused.retryAfter)
				if refused := put(t, a, c.next.token, c.next.from, c.next.answer); refused != nil {
					t.Errorf("refused after waiting as told: %v", refused)
				}
			})
		})
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
		if got := addressOf(remote); got != want {
			t.Errorf("%s is counted as %s, want %s", remote, got, want)
		}
	}
}

// A flood of made-up tokens costs kcp no more than the burst, and a tenant that kcp knows, behind
// the very same address, does not notice.
func TestAFloodOfMadeUpTokensReachesKcpBounded(t *testing.T) {
	const burst, flood = 20, 400
	w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.DeniedRate, s.opts.Limits.DeniedBurst = 1, burst })
	w.received("POST", demo+"sync", "")
	before := w.kcp.gets.Load() + w.kcp.reviews.Load()

	codes := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range flood / 8 {
				res, _ := w.do("POST", demo+"sync", fmt.Sprintf("made-up-%d-%d", i, j), nil)
				mu.Lock()
				codes[res.StatusCode]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// Eight ask at once, each of them when the bucket still has a token; the rest comes as the
	// bucket fills, at one per second.
	asked := (w.kcp.gets.Load() + w.kcp.reviews.Load() - before) / 2
	if asked > burst+8+5 {
		t.Errorf("kcp was asked about %d of %d made-up tokens", asked, flood)
	}
	if codes[http.StatusTooManyRequests]+codes[http.StatusUnauthorized] != flood || codes[http.StatusTooManyRequests] < flood-burst-8-5 {
		t.Errorf("answers: %v", codes)
	}
	for i := range 20 {
		w.received("POST", fmt.Sprintf("%sproxy/%d", demo, i), "") // one question to kcp, and cached answers
	}
	w.received("PUT", demo+"proxy", "") // another question, not cached
	if !strings.Contains(w.scrape(), `sandbar_dataplane_refusals_total{reason="denied_rate"}`) {
		t.Error("refusals are not counted")
	}
}

// While kcp answers nothing, one caller's unknown tokens hold no more than their share of the
// slots, so that another caller's question still gets one.
func TestOneCallerCannotHoldAllQuestions(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.opts.AuthorizationConcurrency, s.opts.Limits.CallerQuestions = 4, 3 })
	w.received("POST", demo+"sync", "") // the tenant is known now

	hold := make(chan struct{})
	w.kcp.set(func() { w.kcp.hold = hold })
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { w.do("POST", demo+"sync", fmt.Sprintf("made-up-%d", i), nil) })
	}
	eventually(t, "three questions are under way", func() bool {
		w.server.handler.authorizer.askers.mu.Lock()
		defer w.server.handler.authorizer.askers.mu.Unlock()
		var n int
		for _, asking := range w.server.handler.authorizer.askers.asking {
			n += asking
		}
		return n == 3
	})
	res, body := w.do("POST", demo+"sync", "made-up-more", nil)
	status := wantStatus(t, res, body, http.StatusTooManyRequests)
	if !strings.Contains(status.Message, "3 requests") || w.lastReason() != causeQuestions {
		t.Errorf("got %q for %s", status.Message, w.lastReason())
	}
	answered := make(chan struct{})
	wg.Go(func() { defer close(answered); w.received("PUT", demo+"proxy", "") })
	for done := false; !done; {
		select {
		case hold <- struct{}{}: // lets one question at a time through; the tenant's is among them
		case <-answered:
			done = true
		}
	}
	close(hold)
	wg.Wait()
	w.server.handler.authorizer.askers.mu.Lock()
	defer w.server.handler.authorizer.askers.mu.Unlock()
	if left := w.server.handler.authorizer.askers.asking; len(left) != 0 {
		t.Errorf("left in memory: %v", left)
	}
}
