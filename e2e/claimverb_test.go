// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/claim"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// claimsWithAKey: a SandboxClaim that is created twice, because the first answer was lost, has one batch of Sandboxes.
func (tn *tenant) claimsWithAKey() {
	key := map[string]string{placement.AnnotationIdempotencyKey: "build 4711"}
	const spec = `{replicas: 2, templateRef: {name: own}, claimTimeout: 2m, sandboxMetadata: {labels: {batch: keyed}}}`
	for _, c := range []struct{ name, spec string }{
		{"keyed", spec}, {"keyed-again", spec}, {"keyed-other", strings.Replace(spec, "replicas: 2", "replicas: 1", 1)},
	} {
		if err := tn.claimWith(c.name, c.spec, key); err != nil {
			tn.t.Fatal(err)
		}
		if c.name == "keyed" { // kcp keeps whole seconds: which of two claims of one second is the first, nobody knows
			tn.waitDecided(c.name)
		}
	}
	first := tn.waitClaim("keyed", sandbarv1alpha1.ClaimBound)
	again := tn.waitClaim("keyed-again", sandbarv1alpha1.ClaimBound)
	if again.SameAs == nil || again.SameAs.Name != "keyed" || len(again.Sandboxes) != 2 || again.Sandboxes[0].UID != first.Sandboxes[0].UID {
		tn.t.Errorf("the second claim has %+v, the first %+v", again, first)
	}
	other := tn.waitClaim("keyed-other", sandbarv1alpha1.ClaimFailed)
	if c := meta.FindStatusCondition(other.Conditions, sandbarv1alpha1.ClaimClaimedCondition); c == nil || c.Reason != "IdempotencyKeyReused" {
		tn.t.Errorf("another request with the key has %+v", other)
	}
	tn.deleteClaim("keyed-again")
	tn.waitBoxes("batch=keyed", 2)
	tn.deleteClaim("keyed")
	tn.waitBoxes("batch=keyed", 0)
}

// waitDecided waits until it is decided whose Sandboxes a claim has.
func (tn *tenant) waitDecided(name string) {
	tn.t.Helper()
	tn.waitClaimThat(name, "is decided", func(s sandbarv1alpha1.SandboxClaimStatus) bool { return s.Phase != "" })
}

func (tn *tenant) claimPath() string {
	return "/dataplane/clusters/" + tn.path + "/namespaces/default/sandboxtemplates/own/claim"
}

// claimsByOneCall: docs/fleet.md, "One with one call".
func (tn *tenant) claimsByOneCall() {
	t := tn.t
	tn.waitSet("warm", "has one", hasAvailable(1))
	me := callAs(t, tn.token)
	read := func(body string) (s claim.Sandbox) {
		t.Helper()
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return s
	}
	const body = `{"labels":{"batch":"verb"},"annotations":{"sandbar.dev/idempotency-key":"a"},"wait":"2m"}`
	s := read(me.want(http.StatusCreated, http.MethodPost, tn.claimPath(), []byte(body)))
	if !s.Ready() || s.Start() != sandbarv1alpha1.StartWarm || s.Status.Start.Set.Name != "warm" || s.Status.DataPlane == nil {
		t.Errorf("%+v", s)
	}
	box := tn.existing(sandboxes, s.Metadata.Name)
	if log := me.want(http.StatusOK, http.MethodGet, box.base()+"/log?tail=1", nil); !strings.Contains(log, "own") {
		t.Errorf("its log is %q", log)
	}
	if again := read(me.want(http.StatusOK, http.MethodPost, tn.claimPath(), []byte(body))); again.Metadata.UID != s.Metadata.UID {
		t.Errorf("the same key has another Sandbox, %s", again.Metadata.Name)
	}
	refused := me.wantStatus(http.StatusUnprocessableEntity, http.MethodPost, tn.claimPath(), []byte(strings.Replace(body, "verb", "other", 1)))
	if !strings.Contains(refused.Message, "for another request, which made Sandbox "+s.Metadata.Name) {
		t.Errorf("it was told %q", refused.Message)
	}
	slow := read(me.want(http.StatusAccepted, http.MethodPost, tn.claimPath(), []byte(`{"name":"slow","prewarm":"None","labels":{"batch":"verb"},"wait":"0s"}`)))
	if slow.Metadata.Name != "slow" || !strings.Contains(slow.Message, "sandbar wait sandbox slow") {
		t.Errorf("%+v", slow)
	}
	for body, words := range map[string]string{
		`{"name":"slow"}`:             "409 there is a Sandbox slow already",
		`{"pod":{}}`:                  `422 unknown field "pod"`,
		`{"prewarm":"Maybe"}`:         `422 spec.prewarm: Unsupported value: "Maybe"`,
		`{"labels":{"a":"not good"}}`: "422 metadata.labels: Invalid value",
	} {
		code := map[string]int{"409": 409, "422": 422}[words[:3]]
		if status := me.wantStatus(code, http.MethodPost, tn.claimPath(), []byte(body)); !strings.Contains(status.Message, words[4:]) {
			t.Errorf("%s was told %q", body, status.Message)
		}
	}
	me.wantStatus(http.StatusNotFound, http.MethodPost, strings.Replace(tn.claimPath(), "/own/", "/none/", 1), nil)
	tn.claimsOfAnother()
}

// claimsOfAnother: the right to claim is not the right to create Sandboxes, which the verb does as the caller.
func (tn *tenant) claimsOfAnother() {
	rule := func(verb, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"sandbar.dev"}, Resources: []string{resource}, Verbs: []string{verb}}
	}
	tn.admit(tn.role("e2e-claims", rule("create", "sandboxtemplates/claim"), rule("get", "sandboxtemplates")), "bob")
	bob := callAs(tn.t, world.Stack.Token("bob"))
	if status := bob.wantStatus(http.StatusForbidden, http.MethodPost, tn.claimPath(), nil); !strings.Contains(status.Message, "the right to create sandboxes in namespace default") {
		tn.t.Errorf("it was told %q", status.Message)
	}
	stranger := callAs(tn.t, world.Stack.Token("dave"))
	if status := stranger.wantStatus(http.StatusForbidden, http.MethodPost, tn.claimPath(), nil); strings.Contains(status.Message, "sandboxes in namespace") {
		tn.t.Errorf("a stranger was told %q", status.Message)
	}
}
