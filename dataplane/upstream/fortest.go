// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
)

// PermitForTest says which addresses may be dialled: a test's pods are on loopback.
func (w *Ways) PermitForTest(permit func(netip.Addr) bool) { w.direct.permit = permit }

// AddressesForTest are those behind a destination, in an order in which they are tried.
func (w *Ways) AddressesForTest(to locate.Destination) []string {
	var addresses []string
	for _, e := range w.direct.order(slices.Collect(w.direct.ready(to))) {
		addresses = append(addresses, net.JoinHostPort(e.ip, strconv.Itoa(e.port)))
	}
	return addresses
}

// RefusedForTest is how many endpoints are remembered to have refused a connection.
func (w *Ways) RefusedForTest() int {
	w.direct.mu.Lock()
	defer w.direct.mu.Unlock()
	return len(w.direct.refused)
}

// TokensForTest are the present tokens for a destination.
func (w *Ways) TokensForTest(to locate.Destination) ([]string, error) {
	current, _, err := w.direct.tokens.of(to)
	return current, err
}
