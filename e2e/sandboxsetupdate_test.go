// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/hack/adoptions"
)

// TestASetIsUpdatedWhileSandboxesAreTaken: a set of ten gets another template while one Sandbox after the other takes what
// is new. There is always one that can be taken, and those that were taken before keep their pods.
func TestASetIsUpdatedWhileSandboxesAreTaken(t *testing.T) {
	long(t, "it keeps ten sandboxes ready, and replaces them")
	calm(t)
	const wanted = 10
	tn := setTenant(t, "carol")
	for _, name := range []string{"own", "other"} {
		tn.mustTemplate(name, `{template: {spec: `+podAsking(name, small)+`}}`)
	}
	tn.mustSet("warm", fmt.Sprintf(`{replicas: %d, templateRef: {name: own}, scaleStrategy: {maxUnavailable: 100%%}}`, wanted))
	tn.waitSet("warm", "is full", hasAvailable(wanted))
	watch := watchAdoptions(tn)
	claimer := newClaimer(tn, watch, claimsOwn)
	claimer.atOnce, claimer.kept = 1, 3
	claimer.claim(3, func() bool { return true })
	former, pods := claimer.living, map[*claimed]types.UID{}
	for _, got := range former {
		if start := got.box.started(); start.Type != sandbarv1alpha1.StartWarm {
			t.Errorf("before the update one started as %+v", start)
		}
		pods[got] = got.box.pod().UID
	}
	before := tn.waitSet("warm", "is full again", hasAgain(wanted, 3))

	fewest := watch.countFewest()
	if err := tn.patchSet("warm", `{"spec":{"templateRef":{"name":"other"}}}`); err != nil {
		t.Fatal(err)
	}
	claimer.asks(`{template: {templateRef: {kind: SandboxTemplate, name: other}}}`)
	claimer.living, claimer.kept = nil, 1
	claimer.claim(1, func() bool {
		set, err := tn.readSet("warm")
		return t.Failed() || err == nil && set.Status.Revision != before.Revision && set.Status.UpdatedReplicas >= wanted-1
	})
	tn.waitSet("warm", "is full of the new ones", func(s sandbarv1alpha1.SandboxSetStatus) bool {
		return hasAvailable(wanted)(s) && s.UpdatedReplicas == wanted && s.Revision != before.Revision
	})
	n := fewest()
	t.Logf("%d were taken during the update; there were %d at least that could be", len(claimer.all)-len(former), n)
	if n < 1 {
		t.Error("there was none that could be taken")
	}
	for got, pod := range pods {
		if now := got.box.pod().UID; now != pod {
			t.Errorf("the pod of %s, which was taken before, was replaced", got.box.name)
		}
	}
	claimer.living = append(claimer.living, former...)
	claimer.wantSettled("warm", wanted)
	claimer.wantOneOwnerEach(adoptions.One)
}
