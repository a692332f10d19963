// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/hack/adoptions"
)

// TestClaimsWhileTheProviderIsKilled: the provider, kcp and the runtime's API server end at any moment of 200 claims,
// some of which are taken back at once, and still each Sandbox has one placement, no member has two owners, and the set
// comes back to what it wants.
func TestClaimsWhileTheProviderIsKilled(t *testing.T) {
	long(t, "it kills the provider, kcp and the runtime's API server at random")
	breaks(t)
	const claims, wanted = 200, 6
	tn := setTenant(t, "bob")
	tn.mustTemplate("own", `{template: {spec: `+podAsking("own", small)+`}}`)
	tn.mustSet("warm", fmt.Sprintf(`{replicas: %d, templateRef: {name: own}, scaleStrategy: {maxUnavailable: 100%%}}`, wanted))
	tn.waitSet("warm", "is full", hasAvailable(wanted))

	watch := watchAdoptions(tn)
	claimer := newClaimer(tn, watch, claimsOwn)
	claimer.atOnce, claimer.kept, claimer.hasty = 4, 12, 8
	kills := killAtRandom(t, theProvider, "kcp", "kube-apiserver")
	claimer.claim(claims, kills.enough)
	kills.end()
	tn.waitSet("warm", "is full again", hasAvailable(wanted))
	claimer.wantSettled("warm", wanted)
	claimer.wantOneOwnerEach(adoptions.One)
}
