// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"sync"
	"testing"

	"github.com/sandbar-dev/sandbar/hack/adoptions"
	"github.com/sandbar-dev/sandbar/hack/local"
)

// TestClaimsWithTwoLeaders: two processes act as if each were the one that leads, on the same claims and members, and
// still no member has two owners, no Sandbox is told of two placements, and what one of them has made too much goes.
func TestClaimsWithTwoLeaders(t *testing.T) {
	long(t, "it keeps fifty sandboxes ready")
	breaks(t)
	const claims, wanted = 300, 50
	tn := setTenant(t, "bob")
	tn.mustTemplate("own", `{template: {spec: `+podAsking("own", small)+`}}`)
	tn.mustSet("warm", fmt.Sprintf(`{replicas: %d, templateRef: {name: own}, scaleStrategy: {maxUnavailable: 10},
		patch: {spec: {containers: [{name: main, env: [{name: OWN, value: patched}]}]}}}`, wanted))
	tn.waitSet("warm", "is full", hasAvailable(wanted))
	patched := counted(t, "sandbar_patch_computations_total")
	rival, err := world.StartControllers(t.Context(), "rival", "--leader-elect=false")
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		if err := rival.Stop(); err != nil {
			t.Errorf("stopping the second leader: %v", err)
		}
	})
	t.Cleanup(stop)

	const took, lost = `sandbar_claims_total{reason="",start="Warm"}`, "sandbar_adoption_conflicts_total"
	tookBefore, lostBefore := counted(t, took), counted(t, lost)
	watch := watchAdoptions(tn)
	claimer := newClaimer(tn, watch, claimsOwn)
	claimer.atOnce, claimer.kept, claimer.hasty = 10, 10, 0
	claimer.claim(claims, func() bool { return true })
	ours, theirs := counted(t, took)-tookBefore, countedBy(t, rival, took)
	conflicts := counted(t, lost) - lostBefore + countedBy(t, rival, lost)
	t.Logf("one has taken %v members, the other %v; %v times one was too late", ours, theirs, conflicts)
	if ours == 0 || theirs == 0 || conflicts == 0 {
		t.Error("only one of them has acted")
	}
	if n := counted(t, "sandbar_patch_computations_total") - patched; n != 0 {
		t.Errorf("the set's patch was computed %v times more", n)
	}
	stop()
	tn.waitSet("warm", "is full again", hasAvailable(wanted))
	claimer.wantSettled("warm", wanted)
	claimer.wantOneOwnerEach(adoptions.Several)
}

// countedBy is counted for controllers beside the provider.
func countedBy(t *testing.T, c *local.Controllers, series string) float64 {
	t.Helper()
	text, err := c.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return countedIn(t, text, series)
}
