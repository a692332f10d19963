// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// answers is the DNS of a cluster, which answers what is next; the last answer stays.
type answers struct {
	t    *testing.T
	mu   sync.Mutex
	left []any
	n    int
}

func (a *answers) lookup(_ context.Context, network, host string) ([]netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if host != "shop-sandbar-baseline.demo.svc" || network != "ip4" && network != "ip6" {
		a.t.Errorf("%s is looked up in %s", host, network)
	}
	next := a.left[0]
	if a.n++; len(a.left) > 1 {
		a.left = a.left[1:]
	}
	switch next := next.(type) {
	case string:
		return []netip.Addr{netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr(next)}, nil
	case error:
		return nil, next
	}
	return nil, nil
}

var (
	errNoAnswer = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	errNoName   = &net.DNSError{Err: "no such host", IsNotFound: true}
)

func withDNS(t *testing.T, left ...any) (*Proxy, *answers) {
	t.Helper()
	dns := &answers{t: t, left: left}
	p, err := New(Options{Service: service, Namespace: "demo", Lookup: dns.lookup, Logger: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.endPassing)
	return p, dns
}

func (p *Proxy) handed(t *testing.T, baselines ...string) {
	t.Helper()
	config := intercept.Config{Service: service}
	for i, baseline := range baselines {
		config.Ports = append(config.Ports, intercept.Port{Listen: int32(8080 + i), Baseline: baseline, Protocol: intercept.HTTP})
	}
	document, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	p.state.apply(document)
}

// The attack: a thief of the controllers' credential writes a document by which all requests go to another host.
func TestADocumentWhoseBaselineIsAnotherHostIsRefused(t *testing.T) {
	const own = "shop-sandbar-baseline.demo.svc"
	for name, c := range map[string]struct {
		baselines []string
		says      string
	}{
		"the Service by its name":      {[]string{own + ":80", own + ":81"}, ""},
		"an address":                   {[]string{"10.0.1.1:80", "10.0.1.1:81"}, ""},
		"an address of IPv6":           {[]string{"[fd00::1]:80"}, ""},
		"another host":                 {[]string{"thief.example:80"}, "neither"},
		"another namespace":            {[]string{"shop-sandbar-baseline.thief.svc:80"}, "neither"},
		"another Service":              {[]string{"api-sandbar-baseline.demo.svc:80"}, "neither"},
		"the Service itself":           {[]string{"shop.demo.svc:80"}, "neither"},
		"a name that begins so":        {[]string{own + ".thief.example:80"}, "neither"},
		"a second port elsewhere":      {[]string{"10.0.1.1:80", "10.0.1.2:80"}, "another host"},
		"a second port, by an address": {[]string{own + ":80", "10.0.1.1:80"}, "another host"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := withDNS(t, "10.0.1.1")
			p.handed(t, c.baselines...)
			if refused := valueOf(p.metrics.configErrors) == 1; refused != (c.says != "") || refused == (len(p.state.listensAt()) > 0) {
				t.Errorf("it is refused: %t, with ports %v", refused, p.state.listensAt())
			}
			var ports []intercept.Port
			for _, baseline := range c.baselines {
				ports = append(ports, intercept.Port{Baseline: baseline})
			}
			if _, err := p.behind.addressOf(ports); c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
	p, _ := withDNS(t, "10.0.1.1")
	p.handed(t, "10.0.1.1:80")
	p.handed(t, "thief.example:80")
	if ports := p.state.listensAt(); len(ports) != 1 || ports[0].Baseline != "10.0.1.1:80" {
		t.Errorf("the document before it does not stay: %v", ports)
	}
}

func TestNoPortIsListenedToBeforeItsBaselineIsTheServicesOwn(t *testing.T) {
	for name, c := range map[string]struct {
		baseline string
		answers  []any
		seconds  int
	}{
		"at once":                   {"10.0.1.1:80", []any{"10.0.1.1"}, 0},
		"an address of IPv6":        {"[fd00::1]:80", []any{"fd00::1"}, 0},
		"once DNS answers":          {"10.0.1.1:80", []any{errNoAnswer, context.DeadlineExceeded, "10.0.1.1"}, 2},
		"once the Service is known": {"10.0.1.1:80", []any{errNoName, nil, "10.0.1.1"}, 2},
		"once it is that address":   {"10.0.1.1:80", []any{"10.0.1.2", "10.0.1.2", "10.0.1.2", "10.0.1.1"}, 3},
		"by its name":               {"shop-sandbar-baseline.demo.svc:80", []any{errNoAnswer}, 0},
		"never":                     {"10.0.1.1:80", []any{"10.0.1.2"}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := withDNS(t, c.answers...)
				p.handed(t, c.baseline)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				confirmed := p.confirm(ctx, t.Context())
				if took := time.Since(began); confirmed != (c.seconds >= 0) || confirmed && took != time.Duration(c.seconds)*ProbeEvery {
					t.Errorf("%t after %s", confirmed, took)
				}
			})
		})
	}
	t.Run("a newer document counts until then, and no longer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, _ := withDNS(t, "10.0.1.2")
			p.handed(t, "10.0.1.1:80")
			time.AfterFunc(time.Minute, func() { p.handed(t, "10.0.1.2:80") })
			if !p.confirm(t.Context(), t.Context()) {
				t.Fatal("it is not confirmed")
			}
			p.handed(t, "10.0.1.3:80")
			if ports := p.state.listensAt(); ports[0].Baseline != "10.0.1.2:80" {
				t.Errorf("the baseline is %s", ports[0].Baseline)
			}
		})
	})
	t.Run("a document that comes while it is asked", func(t *testing.T) {
		p, _ := withDNS(t, "10.0.1.1")
		p.handed(t, "10.0.1.1:80")
		asked := p.state.listensAt()
		if p.handed(t, "10.0.1.2:80"); p.state.settle(asked) {
			t.Error("ports that were not asked for are settled")
		}
	})
}

// quiet is a listener to which nobody connects.
type quiet struct {
	once  sync.Once
	ended chan struct{}
}

func (q *quiet) Accept() (net.Conn, error) { <-q.ended; return nil, net.ErrClosed }
func (q *quiet) Close() error              { q.once.Do(func() { close(q.ended) }); return nil }
func (*quiet) Addr() net.Addr              { return &net.TCPAddr{} }

// The attack: the Service behind is deleted while proxies run, and another one gets its address.
func TestAProxyEndsWhenItsBaselineIsAnothersAddress(t *testing.T) {
	const own, others = "10.0.1.1", "10.0.1.2"
	for name, c := range map[string]struct {
		answers []any
		// after is which of the checks ends it; 0 for none.
		after int
	}{
		"the address stays":              {[]any{own, own}, 0},
		"nobody answers":                 {[]any{own, errNoAnswer}, 0},
		"another address for a while":    {[]any{own, others, errNoName, own, others, others, own}, 0},
		"another address":                {[]any{own, others}, 3},
		"no Service of the name":         {[]any{own, errNoName}, 3},
		"no address":                     {[]any{own, nil}, 3},
		"answers between which are none": {[]any{own, others, errNoAnswer, others, errNoAnswer, others}, 5},
		"another address after a while":  {append(repeated(own, 100), others), 102},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, dns := withDNS(t, c.answers...)
				p.opts.listen = func(int32) (net.Listener, error) { return &quiet{ended: make(chan struct{})}, nil }
				p.reach.dial = func(context.Context, string) error { return nil }
				p.handed(t, own+":80")
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err := p.serve(ctx, t.Context())
				if isMoved := errors.Is(err, errMoved); isMoved != (c.after > 0) || !isMoved && err != nil {
					t.Errorf("it ended with %v", err)
				}
				if c.after > 0 && dns.n != 1+c.after {
					t.Errorf("it ended after %d checks, want %d", dns.n-1, c.after)
				}
				if p.moved.Load() != (c.after > 0) || p.notReady() == "" {
					t.Errorf("it has moved: %t, %s", p.moved.Load(), p.notReady())
				}
			})
		})
	}
}

func repeated(value any, n int) (all []any) {
	for range n {
		all = append(all, value)
	}
	return all
}
