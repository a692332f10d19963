// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/route/conformance"
)

// The table of all providers, with real requests.
func TestARouteLeadsToCopies(t *testing.T) {
	bothProtocols(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)))
		client := w.client(http2)
		for _, c := range conformance.BaggageOf(ownID, otherID) {
			t.Run(c.Name, func(t *testing.T) {
				_, got := w.ask(client, w.request("GET", "/", nil, c.Lines...))
				if want := map[bool]string{true: copyAnswered, false: baselineAnswered}[c.Routed]; got != want {
					t.Errorf("%q was answered by the %s", c.Lines, got)
				}
			})
		}
	})
}

func TestTheHeaderOfTheIDMayBeAnother(t *testing.T) {
	bothProtocols(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)))
		w.config.Rules[0].Header = "x-sandbox"
		w.apply()
		for name, c := range map[string]struct {
			lines []string
			want  string
		}{
			"the whole value":       {[]string{ownID}, copyAnswered},
			"one line of two":       {[]string{"x", ownID}, copyAnswered},
			"a part of the value":   {[]string{ownID + ", x"}, baselineAnswered},
			"an entry, as baggage":  {[]string{ownBaggage}, baselineAnswered},
			"in capitals":           {[]string{strings.ToUpper(ownID)}, baselineAnswered},
			"another sandbox alone": {[]string{otherID}, baselineAnswered},
		} {
			req := w.request("GET", "/", nil, ownBaggage)
			for _, line := range c.lines {
				req.Header.Add("X-SANDBOX", line)
			}
			if _, got := w.ask(w.client(http2), req); got != c.want {
				t.Errorf("%s: answered by the %s", name, got)
			}
		}
	})
}

func TestTheFirstRuleOfTheDocumentCounts(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), "")
	a, b := newBackend(t, named("a")), newBackend(t, named("b"))
	w.config.Rules = []intercept.Rule{ruleFor(ownID, a), ruleFor(otherID, b), ruleFor(ownID, b)}
	w.config.Rules[0].Match = prefixMatch("/a")
	w.apply()
	for path, c := range map[string]struct{ baggage, want string }{
		"/a/x": {"sandbox=" + otherID + "," + ownBaggage, "a"},
		"/ab":  {"sandbox=" + ownID, "b"},
		"/b":   {ownBaggage + ",sandbox=" + otherID, "b"},
		"/c":   {"sandbox=sbx-00000000", baselineAnswered},
	} {
		if _, got := w.ask(w.client(false), w.request("GET", path, nil, c.baggage)); got != c.want {
			t.Errorf("%s with %s: answered by %s, want %s", path, c.baggage, got, c.want)
		}
	}
}

// A person who asked for the copy must not take the baseline's answer for the copy's.
func TestACopyThatIsAwayIsNotReplacedByTheBaseline(t *testing.T) {
	bothProtocols(t, func(t *testing.T, http2 bool) {
		gone := closedAddress(t)
		w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), gone)
		client := w.client(http2)
		res, got := w.ask(client, w.request("GET", "/", nil, ownBaggage))
		want := "sandbar-proxy of Service shop: the sandbox's copy " + gone + ": it accepts no connection: the connection is refused\n"
		if res.StatusCode != http.StatusBadGateway || got != want {
			t.Errorf("answered %d %q, want 502 %q", res.StatusCode, got, want)
		}
		if n := w.failures(toCopy, causeConnect); n != 1 {
			t.Errorf("%v failures are counted", n)
		}
		if _, got := w.ask(client, w.request("GET", "/", nil)); got != baselineAnswered {
			t.Errorf("the baseline's request was answered with %q", got)
		}
	})
}

// The baseline needs no place among the requests of copies.
func TestACopyThatHangsTakesNothingFromTheBaseline(t *testing.T) {
	t.Parallel()
	bothProtocols(t, func(t *testing.T, http2 bool) {
		release := make(chan struct{})
		hanging := newBackend(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		defer close(release)
		w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), hanging, func(o *Options) { o.CopyRequests = 3 })
		client := w.client(http2)
		for range 3 {
			req := w.request("GET", "/", nil, ownBaggage)
			go func() {
				if res, err := client.Do(req); err == nil {
					res.Body.Close()
				}
			}()
		}
		eventually(t, "three requests are with the copy", func() bool {
			w.proxy.slots.mu.Lock()
			defer w.proxy.slots.mu.Unlock()
			return w.proxy.slots.total == 3
		})
		res, got := w.ask(client, w.request("GET", "/", nil, ownBaggage))
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(got, "it has 3 requests under way, which is the most") {
			t.Errorf("the fourth was answered %d %q", res.StatusCode, got)
		}
		for range 20 {
			if _, got := w.ask(client, w.request("POST", "/", strings.NewReader("x"))); got != baselineAnswered {
				t.Fatalf("the baseline's request was answered with %q", got)
			}
		}
	})
}

func TestAllCopiesTogetherAreBounded(t *testing.T) {
	s := &slots{each: 2, all: 3, taken: map[string]int{}}
	for _, address := range []string{"a", "a", "b"} {
		if err := s.take(address); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.take("a"); err == nil || err.Error() != "it has 2 requests under way, which is the most" {
		t.Errorf("a third of one: %v", err)
	}
	if err := s.take("c"); err == nil || err.Error() != "all copies together have 3 requests under way, which is the most" {
		t.Errorf("a fourth of all: %v", err)
	}
	s.give("b")
	if err := s.take("c"); err != nil || len(s.taken) != 2 {
		t.Errorf("after one has ended: %v, %v", err, s.taken)
	}
}

func TestAConnectionOfHTTP2HasABoundedNumberOfRequestsWithCopies(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hanging := newBackend(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer close(release)
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), hanging)
	client := w.client(true)
	for range MaxHTTP2CopyStreams {
		req := w.request("GET", "/", nil, ownBaggage)
		go func() {
			if res, err := client.Do(req); err == nil {
				res.Body.Close()
			}
		}()
	}
	eventually(t, "all are with the copy", func() bool {
		w.proxy.slots.mu.Lock()
		defer w.proxy.slots.mu.Unlock()
		return w.proxy.slots.total == MaxHTTP2CopyStreams
	})
	res, got := w.ask(client, w.request("GET", "/", nil, ownBaggage))
	if want := (copyStreamsError{}).Error(); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(got, want) {
		t.Errorf("one more was answered %d %q", res.StatusCode, got)
	}
	if _, got := w.ask(client, w.request("GET", "/", nil)); got != baselineAnswered {
		t.Errorf("the baseline's request was answered with %q", got)
	}
}

// Requests pass while the document changes; none is lost, and each is answered by one of those that the documents name.
func TestADocumentChangesUnderLoad(t *testing.T) {
	t.Parallel()
	bothProtocols(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)))
		rule := w.config.Rules[0]
		load := w.load(http2, 8)
		for i := range 40 {
			w.config.Rules = nil
			if i%2 == 0 {
				w.config.Rules = []intercept.Rule{rule}
			}
			w.apply()
			load.more(t, 4)
		}
		load.end(t)
		if load.answered[copyAnswered] == 0 || load.answered[baselineAnswered] == 0 {
			t.Errorf("answered were %v", load.answered)
		}
	})
}

func TestADocumentThatIsNotValidIsRefusedAsAWhole(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)))
	good := w.config.Rules
	w.config.Rules = []intercept.Rule{ruleFor(otherID, good[0].Backends[0].Address), ruleFor(".*", good[0].Backends[0].Address)}
	w.apply()
	for baggage, want := range map[string]string{ownBaggage: copyAnswered, "sandbox=" + otherID: baselineAnswered, "x=y": baselineAnswered} {
		if _, got := w.ask(w.client(false), w.request("GET", "/", nil, baggage)); got != want {
			t.Errorf("%s: answered by the %s", baggage, got)
		}
	}
	if refused, applied := valueOf(w.proxy.metrics.configErrors), valueOf(w.proxy.metrics.configApplied); refused != 1 || applied != 1 {
		t.Errorf("%v documents are counted as refused and %v as applied", refused, applied)
	}
}

func TestWithoutADocumentAllGoesToTheBaseline(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)))
	w.hand(nil)
	if _, got := w.ask(w.client(false), w.request("GET", "/", nil, ownBaggage)); got != baselineAnswered {
		t.Errorf("answered by the %s", got)
	}
	if reason := w.proxy.notReady(); reason != "" {
		t.Errorf("the proxy is not ready: %s", reason)
	}
	w.apply()
	if _, got := w.ask(w.client(false), w.request("GET", "/", nil, ownBaggage)); got != copyAnswered {
		t.Errorf("with the document again: answered by the %s", got)
	}
}

func TestPortsStayWhatTheyWere(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)))
	w.config.Ports = []intercept.Port{{Listen: 9090, Baseline: closedAddress(t), Protocol: intercept.TCP}}
	w.config.Rules = nil
	w.apply()
	if _, got := w.ask(w.client(false), w.request("GET", "/", nil, ownBaggage)); got != baselineAnswered {
		t.Errorf("answered by the %s", got)
	}
}

func TestWeightsShareRequests(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named("a")))
	w.config.Rules[0].Backends = append(w.config.Rules[0].Backends, intercept.Backend{Address: newBackend(t, named("b")), Weight: 0})
	w.apply()
	for range 50 {
		if _, got := w.ask(w.client(false), w.request("GET", "/", nil, ownBaggage)); got != "a" {
			t.Fatalf("a backend of weight 0 answered: %s", got)
		}
	}
}
