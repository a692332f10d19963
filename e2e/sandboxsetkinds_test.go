// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// setTenant is a tenant who can make sets, and what they are made of.
func setTenant(t *testing.T, name string) *tenant {
	t.Helper()
	tn := newTenant(t, name)
	tn.waitServed(sandboxes)
	tn.waitServed(sandboxTemplates)
	tn.waitServed(sandboxSets)
	return tn
}

// deleteSets deletes sets, and waits until their members are gone.
func (tn *tenant) deleteSets(names ...string) {
	tn.t.Helper()
	uids := map[string]bool{}
	for _, name := range names {
		set, err := tn.readSet(name)
		if err != nil {
			tn.t.Fatal(err)
		}
		uids[string(set.UID)] = true
		if err := tn.dyn.Resource(sandboxSets).Namespace("default").Delete(tn.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			tn.t.Fatal(err)
		}
	}
	eventually(tn.t, "the members are gone", func() error {
		for uid := range uids {
			if left := namespacesWith(tn.t, map[string]string{placement.LabelSetUID: uid}); len(left) > 0 {
				return fmt.Errorf("%d are left", len(left))
			}
		}
		return nil
	})
}

// TestSandboxSetsThatDiffer: a Sandbox that must start warm waits for its set, within its time; of several sets
// of one template the preferred one gives first, and what its patch changes is there.
func TestSandboxSetsThatDiffer(t *testing.T) {
	calm(t)
	tn := setTenant(t, "alice")
	c := callAs(t, tn.token)
	t.Run("warm or not at all", func(t *testing.T) {
		tn.mustTemplate("later", `{template: {spec: `+podSaying("later")+`}}`)
		waits := tn.box("waits", `{prewarm: Require, template: {templateRef: {kind: SandboxTemplate, name: later}}}`)
		eventually(t, "it waits for a set", func() error {
			obj, err := waits.get()
			if err != nil {
				return err
			}
			if reason := readyReason(obj); reason != "WaitingForMember" {
				return fmt.Errorf("Ready has the reason %q", reason)
			}
			return nil
		})
		tn.mustSet("later", `{templateRef: {name: later}}`)
		if start := waits.started(); start.Type != sandbarv1alpha1.StartWarm || start.Set.Name != "later" {
			t.Errorf("it started as %+v", start)
		}
		late := tn.box("too-late", `{prewarm: Require, startTimeout: 1s, template: {templateRef: {kind: SandboxTemplate, name: nobody-has-this}}}`)
		eventually(t, "it gives up", func() error {
			obj, err := late.get()
			if err != nil {
				return err
			}
			if reason := readyReason(obj); reason != "StartTimedOut" {
				return fmt.Errorf("Ready has the reason %q", reason)
			}
			return nil
		})
	})
	t.Run("that patches its template", func(t *testing.T) {
		tn.mustTemplate("tiers", `{template: {spec: `+podSaying("tiers")+`}}`)
		tn.mustSet("dear", `{templateRef: {name: tiers}, priority: -1}`)
		tn.mustSet("cheap", `{templateRef: {name: tiers}, patch: {spec: {containers: [{name: main, env: [{name: OWN, value: cheap}]}]}}}`)
		tn.waitSet("dear", "has one", hasAvailable(1))
		if s := tn.waitSet("cheap", "has one", hasAvailable(1)); !s.Patched {
			t.Errorf("%+v", s)
		}
		if err := tn.patchSet("dear", `{"spec":{"paused":true}}`); err != nil {
			t.Fatal(err)
		}
		tn.waitSet("dear", "is paused", func(s sandbarv1alpha1.SandboxSetStatus) bool { return s.ObservedGeneration == 2 })
		for _, want := range []string{"dear", "cheap"} {
			tier := tn.box("tier-"+want, `{template: {templateRef: {kind: SandboxTemplate, name: tiers}}}`)
			if start := tier.started(); start.Set == nil || start.Set.Name != want {
				t.Errorf("it started as %+v, want a sandbox of %s", start, want)
			}
			says := map[string]string{"dear": "tiers none", "cheap": "tiers cheap"}[want]
			if _, log := c.do("GET", tier.base()+"/log", nil); !strings.Contains(log, says) {
				t.Errorf("the log of one of %s is %q", want, log)
			}
		}
		tn.on(t).refusedPatches("cheap")
	})
}

// refusedPatches gives a set that has one sandbox patches that cannot be, one after the other.
func (tn *tenant) refusedPatches(set string) {
	t := tn.t
	for word, patch := range map[string]string{
		"spec.nodeName":          `{"spec":{"nodeName":"chosen"}}`,
		"continers":              `{"spec":{"continers":[]}}`,
		"ImagePullPolicy":        `{"spec":{"containers":[{"name":"main","ImagePullPolicy":"Always"}]}}`,
		"spec.affinity":          `{"spec":{"affinity":{"nodeAffinity":{}}}}`,
		"hostPath":               `{"spec":{"volumes":[{"name":"v","hostPath":{"path":"/"}}]}}`,
		"65536 is the most":      `{"metadata":{"annotations":{"a":"` + strings.Repeat("x", 65<<10) + `"}}}`,
		"at least one container": `{"spec":{"containers":[{"$patch":"delete","name":"main"}]}}`,
		"merge key: name":        `{"spec":{"containers":[{"$patch":"replace"},{"image":"x"}]}}`,
	} {
		data := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/patch","value":%s}]`, patch)
		patched, err := tn.dyn.Resource(sandboxSets).Namespace("default").Patch(t.Context(), set, types.JSONPatchType, data, metav1.PatchOptions{})
		if err != nil {
			t.Errorf("%.80s: %v", patch, err)
			continue
		}
		tn.waitSet(set, "goes on with its former patch beside one with "+word, func(s sandbarv1alpha1.SandboxSetStatus) bool {
			valid := s.Conditions[0]
			return s.ObservedGeneration == patched.GetGeneration() && valid.Reason == sandbarv1alpha1.SandboxSetPatchRefused && strings.Contains(valid.Message, "correct spec.patch: ") && strings.Contains(valid.Message, word) && hasAvailable(1)(s)
		})
	}
}

// TestSandboxSetsOfTheirOwnTemplate: a set may hold its template itself; one that cannot be says why, and makes no
// more members than it needs to learn that they do not come up.
func TestSandboxSetsOfTheirOwnTemplate(t *testing.T) {
	calm(t)
	tn := setTenant(t, "alice")
	t.Run("with a template of its own", func(t *testing.T) {
		tn.mustSet("inline", `{template: {spec: `+podSaying("inline")+`}}`)
		tn.waitSet("inline", "has one", hasAvailable(1))
		own := tn.box("of-inline", `{template: {templateRef: {kind: SandboxTemplate, name: inline}}}`)
		if start := own.started(); start.Type != sandbarv1alpha1.StartWarm || start.Set.Name != "inline" {
			t.Errorf("it started as %+v", start)
		}
		tn.mustTemplate("inline", `{template: {spec: `+podSaying("other")+`}}`)
		tn.waitSet("inline", "is not valid beside a SandboxTemplate of its name", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return s.Conditions[0].Reason == sandbarv1alpha1.SandboxSetNameConflict && s.AvailableReplicas == 0
		})
	})
	t.Run("as the example has it", func(t *testing.T) {
		tn.apply("../examples/tenant/sandboxset.yaml", func(*unstructured.Unstructured) {})
		if start := tn.existing(sandboxes, "of-quick").started(); start.Type != sandbarv1alpha1.StartWarm {
			t.Errorf("it started as %+v", start)
		}
	})
	t.Run("that cannot be", func(t *testing.T) {
		for name, test := range map[string]struct{ spec, word string }{
			"both":     {`{template: {spec: ` + podSaying("x") + `}, templateRef: {name: x}}`, "exactly one of"},
			"negative": {`{replicas: -1, templateRef: {name: x}}`, "replicas"},
			"age":      {`{memberMaxAge: 1m, templateRef: {name: x}}`, "at least 10m"},
			"node":     {`{template: {spec: {nodeName: chosen, containers: [{name: main, image: x}]}}}`, "not a tenant's to set"},
		} {
			if err := tn.set("refused", test.spec); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.word) {
				t.Errorf("%s: %v", name, err)
			}
		}
		tn.mustSet("nothing", `{templateRef: {name: nobody-has-this}}`)
		tn.waitSet("nothing", "says what is wrong", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return len(s.Conditions) > 0 && s.Conditions[0].Reason == "TemplateNotUsable" && strings.Contains(s.Conditions[0].Message, "nobody-has-this")
		})
	})
	t.Run("whose pods do not come up", func(t *testing.T) {
		const mended = `{"containers":[{"name":"main","image":"` + toolchain + `","command":["sleep","100000"]}]}`
		tn.mustSet("broken", `{replicas: 4, template: {spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: `+toolchain+`, command: [/no-such-program]}]}}}`)
		said := tn.waitSet("broken", "says why", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return s.FailingReplicas == 1 && len(s.Problems) == 1 && scalingIs(s, "ReplicasFailing")
		})
		t.Logf("%+v", said.Problems)
		if n := len(tn.membersOf("broken")); n != 1 {
			t.Errorf("%d were made, one may be", n)
		}
		if err := tn.patchSet("broken", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"localhost/sandbar/no-such-image:dev"}]}}}}`); err != nil {
			t.Fatal(err)
		}
		said = tn.waitSet("broken", "says that there is no image", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return len(s.Problems) == 1 && s.Problems[0].Reason == "ImageNotPullable" && scalingIs(s, "ReplicasFailing")
		})
		t.Logf("%+v", said.Problems)
		eventually(t, "the former one is gone, and no more are made", func() error {
			if n := len(tn.membersOf("broken")); n != 1 {
				return fmt.Errorf("there are %d, one may be", n)
			}
			return nil
		})
		if err := tn.patchSet("broken", `{"spec":{"replicas":2,"template":{"spec":`+mended+`}}}`); err != nil {
			t.Fatal(err)
		}
		tn.waitSet("broken", "comes up once it is mended", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return hasAvailable(2)(s) && s.FailingReplicas == 0 && len(s.Problems) == 0 && !scalingIs(s, "ReplicasFailing")
		})
	})
	t.Run("gone with what they kept", func(*testing.T) { tn.deleteSets("inline", "broken", "nothing") })
}
