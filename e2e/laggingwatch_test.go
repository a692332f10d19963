// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// lagOfWatch is longer than it takes to ask right after Ready, and shorter than a data plane waits for a placement.
const lagOfWatch = 600 * time.Millisecond

// TestARequestRightAfterReadyWaitsForALaggingWatch: a warm Sandbox is Ready within milliseconds, before a data plane whose
// watch of the runtime cluster lags knows whose its placement is. The request waits for that and succeeds.
func TestARequestRightAfterReadyWaitsForALaggingWatch(t *testing.T) {
	long(t, "unit tests have its promise without a network")
	calm(t)
	tn := setTenant(t, "alice")
	gate, err := world.NewGate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	through, err := gate.Kubeconfig("runtime-serve.kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	c := by(callAs(t, tn.token), startReplica(t, "replica-lagging", "--runtime-kubeconfig", through))
	tn.mustTemplate("own", `{template: {spec: `+podAsking("own", small)+`}}`)
	tn.mustSet("warm", `{replicas: 3, templateRef: {name: own}}`)
	for i := range 3 {
		tn.waitSet("warm", "has three", hasAgain(3, int64(i)))
		gate.SetLag(lagOfWatch)
		box := tn.box(fmt.Sprintf("young-%d", i), claimsOwn)
		if start := box.started(); start.Type != sandbarv1alpha1.StartWarm {
			t.Fatalf("%s started as %+v", box.name, start)
		}
		c.want(http.StatusOK, http.MethodGet, box.base()+"/log?tail=1", nil)
		gate.SetLag(0)
	}
}
