// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
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
		want := "sandbar-proxy of Service shop: the copy of sandbox " + ownID + ": it accepts no connection: the connection is refused\n"
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
	s := newSlots(2, 12) // and so 3 for a sandbox
	take := func(sandbox, address string) string {
		if err := s.take(address, sandbox); err != nil {
			return err.Error()
		}
		return ""
	}
	for _, c := range []struct{ sandbox, address, want string }{
		{ownID, "a", ""},
		{ownID, "a", ""},
		{ownID, "a", "it has 2 requests under way, which is the most"},
		{ownID, "b", ""},
		{ownID, "c", "sandbox " + ownID + " has 3 requests under way, which is the most"},
		{otherID, "a", "it has 2 requests under way, which is the most"},
		{otherID, "c", ""},
	} {
		if got := take(c.sandbox, c.address); got != c.want {
			t.Errorf("one of %s at %s: %q, want %q", c.sandbox, c.address, got, c.want)
		}
	}
	for i := range 8 {
		if got := take(fmt.Sprint("sandbox", i), fmt.Sprint("address", i)); got != "" {
			t.Fatal(got)
		}
	}
	if got := take("another", "address"); got != "all copies together have 12 requests under way, which is the most" {
		t.Errorf("one more than all: %q", got)
	}
	s.give("b", ownID)
	if got := take(ownID, "c"); got != "" || len(s.copies) != 10 || len(s.sandboxes) != 10 {
		t.Errorf("after one has ended: %q, %v, %v", got, s.copies, s.sandboxes)
	}
}

// One sandbox with many addresses leaves the others theirs.
func TestASandboxHasAQuarterOfThePlaces(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hanging := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), "", func(o *Options) { o.CopiesRequests = 8 })
	for _, path := range []string{"/one", "/two", "/three"} {
		rule := ruleFor(ownID, newBackend(t, hanging))
		rule.Match = prefixMatch(path)
		w.config.Rules = append(w.config.Rules, rule)
	}
	defer close(release)
	w.config.Rules = append(w.config.Rules, ruleFor(otherID, newBackend(t, named(copyAnswered))))
	w.apply()
	client := w.client(false)
	for _, path := range []string{"/one", "/two"} {
		req := w.request("GET", path, nil, ownBaggage)
		go func() {
			if res, err := client.Do(req); err == nil {
				res.Body.Close()
			}
		}()
	}
	eventually(t, "two requests are under way", func() bool {
		w.proxy.slots.mu.Lock()
		defer w.proxy.slots.mu.Unlock()
		return w.proxy.slots.total == 2
	})
	res, got := w.ask(client, w.request("GET", "/three", nil, ownBaggage))
	if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(got, "sandbox "+ownID+" has 2 requests under way, which is the most") {
		t.Errorf("the third was answered %d %q", res.StatusCode, got)
	}
	if n := w.failures(toCopy, causeSandbox); n != 1 {
		t.Errorf("%v are counted", n)
	}
	if _, got := w.ask(client, w.request("GET", "/", nil, "sandbox="+otherID)); got != copyAnswered {
		t.Errorf("another sandbox's was answered %q", got)
	}
}

// Clients may be those of an Ingress: where copies are is for the log.
func TestAFailureNamesTheSandboxToTheClientAndTheAddressToTheLog(t *testing.T) {
	var logged syncBuffer
	gone := closedAddress(t)
	w := newWorld(t, intercept.HTTP, gone, gone, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	for baggage, who := range map[string]string{ownBaggage: "the copy of sandbox " + ownID + ": ", "": "the baseline: "} {
		if _, got := w.ask(w.client(false), w.request("GET", "/", nil, baggage)); strings.Contains(got, gone) || !strings.Contains(got, who) {
			t.Errorf("the client is told %q", got)
		}
	}
	if lines := strings.Count(logged.String(), "a request has no answer"); lines != 1 || !strings.Contains(logged.String(), "address="+gone) {
		t.Errorf("%d lines within a second: %s", lines, logged.String())
	}
}

// syncBuffer is written to by many.
type syncBuffer struct {
	mu sync.Mutex
	strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.String()
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
