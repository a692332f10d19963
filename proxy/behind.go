// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	names "github.com/sandbar-dev/sandbar/pkg/intercept"
)

// behind is the Service that has the original pods, by its name, which a document cannot choose.
//
// The attack: a thief of the controllers' credential writes a document whose baseline is a host of the thief's, and all requests of the
// Service, with what they carry, go there. Or, once proxies pass requests to the address of the Service behind, the thief deletes
// that Service and has another one get its address. So a document may name that Service, or an address that the cluster's DNS has
// for its name: when the proxy starts, and still while it runs. A resolver that answers nothing changes nothing for a proxy that
// runs: requests must not depend on it.
type behind struct {
	name string
	// domain is that of the cluster's Services.
	domain string
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	log    *slog.Logger
}

func newBehind(opts *Options, domain string, log *slog.Logger) *behind {
	return &behind{domain: domain, name: names.BaselineName(opts.Service) + "." + opts.Namespace + ".svc", lookup: opts.Lookup, log: log}
}

// addressOf is where ports have their baseline; it is not valid if they have the name of the Service. An error is for what can never
// be that Service.
func (b *behind) addressOf(ports []intercept.Port) (netip.Addr, error) {
	var address netip.Addr
	for i, of := range ports {
		host, _, err := net.SplitHostPort(of.Baseline)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("ports[%d].baseline: %w", i, err)
		}
		one, err := netip.ParseAddr(host)
		if err != nil && host != b.name {
			return netip.Addr{}, fmt.Errorf("ports[%d].baseline: %q is neither %s nor an address", i, host, b.name)
		}
		if i > 0 && one != address {
			return netip.Addr{}, fmt.Errorf("ports[%d].baseline: %q is another host than that of ports[0]", i, host)
		}
		address = one
	}
	return address, nil
}

// errMoved means that the name of the Service has other addresses, or none. Another error means that nobody has answered.
var errMoved = errors.New("is none of them")

// check asks the cluster's DNS whether an address is that of the Service.
func (b *behind) check(ctx context.Context, address netip.Addr) error {
	network := "ip4"
	if address.Is6() {
		network = "ip6"
	}
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	found, err := b.lookup(ctx, network, absoluteName(b.name, b.domain))
	var failed *net.DNSError
	if err != nil && (!errors.As(err, &failed) || !failed.IsNotFound) {
		return fmt.Errorf("looking up %s: %w", b.name, err)
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	if !slices.Contains(found, address) {
		return fmt.Errorf("%s has the addresses %v, and the baseline of the document, %s, %w", b.name, found, address, errMoved)
	}
	return nil
}

// confirm waits until the ports of the newest document have the Service behind for their baseline, and has them be the proxy's. It is
// false if ctx has ended before.
func (b *behind) confirm(ctx context.Context, s *state) bool {
	for said := ""; ; {
		ports := s.listensAt()
		reason := ""
		if err := b.confirmed(ctx, ports); err != nil {
			reason = err.Error()
		}
		if reason == "" && s.settle(ports) {
			return true
		}
		if reason != said {
			b.log.Warn("no port is listened to", "reason", reason)
			said = reason
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(ProbeEvery):
		}
	}
}

func (b *behind) confirmed(ctx context.Context, ports []intercept.Port) error {
	address, err := b.addressOf(ports)
	if err != nil || !address.IsValid() {
		return err
	}
	return b.check(ctx, address)
}

// watch asks again each CheckEvery, until ctx ends. The error is that the Service has had another address in MovedAnswers answers.
func (b *behind) watch(ctx context.Context, ports []intercept.Port) error {
	address, err := b.addressOf(ports)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(CheckEvery)
	defer ticker.Stop()
	for moved := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !address.IsValid() { // each connection asks for the name
			continue
		}
		switch err := b.check(ctx, address); {
		case err == nil:
			moved = 0
		case !errors.Is(err, errMoved): // nobody has answered
		case moved+1 == MovedAnswers:
			return err
		default:
			moved++
			b.log.Warn("the baseline may have moved", "error", err)
		}
	}
}
