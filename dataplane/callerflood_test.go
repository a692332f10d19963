// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// A flood of made-up tokens costs kcp no more than the burst, and a tenant that kcp knows, behind
// the very same address, does not notice.
func TestAFloodOfMadeUpTokensReachesKcpBounded(t *testing.T) {
	const burst, flood = 20, 400
	w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.UnverifiedRate, s.opts.Limits.UnverifiedBurst = 1, burst })
	w.received("POST", demo+"sync", "")
	before := w.kcp.questions()

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
	// Of a token that kcp does not know it is asked nothing but whose it is.
	asked := w.kcp.questions() - before
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
	if !strings.Contains(w.scrape(), `sandbar_dataplane_refusals_total{reason="unverified_rate"}`) {
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
	w.kcp.who.change(func() { w.kcp.who.holdRoot = hold })
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { w.do("POST", demo+"sync", fmt.Sprintf("made-up-%d", i), nil) })
	}
	eventually(t, "three questions are under way", func() bool { return w.server.handler.authorizer.UnderWayForTest() == 3 })
	res, body := w.do("POST", demo+"sync", "made-up-more", nil)
	status := wantStatus(t, res, body, http.StatusTooManyRequests)
	if !strings.Contains(status.Message, "3 requests") || w.lastReason() != refusal.CauseQuestions {
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
	if left := w.server.handler.authorizer.UnderWayForTest(); left != 0 {
		t.Errorf("left in memory: %d", left)
	}
}
