// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// TestSandboxSetsOfAnOperatorsTemplate: a set may keep sandboxes of a pod template that the operator offers. They follow it,
// and so does a Sandbox that has taken one; when it is offered no more, the set says so.
func TestSandboxSetsOfAnOperatorsTemplate(t *testing.T) {
	changes(t)
	text, err := os.ReadFile("../examples/operator/template-tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := &note{t: t, name: "tools", kind: "ToolNote", text: string(text), dyn: dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace))}
	tn := setTenant(t, "alice")
	tn.waitServed(sandboxClaims)
	c := callAs(t, tn.token)
	says := func(t *testing.T, box *instance, text string) {
		t.Helper()
		eventually(t, box.name+" says "+text, func() error {
			if _, log := c.do("GET", box.base()+"/log", nil); !strings.Contains(log, text) {
				return fmt.Errorf("the log is %q", log)
			}
			return nil
		})
	}
	tn.mustSet("early", `{templateRef: {kind: Template, name: tools}}`)
	tn.waitSet("early", "says that there is no such Template", isRefused("tools"))
	n.apply()
	tn.waitSet("early", "has one", hasAvailable(1))
	tn.deleteSets("early")

	tn.apply("../examples/tenant/sandboxset-of-template.yaml", func(*unstructured.Unstructured) {})
	box := tn.existing(sandboxes, "of-tools")
	t.Run("as the examples have it", func(t *testing.T) {
		if start := box.started(); start.Type != sandbarv1alpha1.StartWarm || start.Set.Name != "tools" {
			t.Errorf("it started as %+v", start)
		}
		says(t, box, "tools first")
		tn.waitSet("tools", "has two again", hasAgain(2, 1))
	})
	t.Run("by a SandboxClaim", func(t *testing.T) {
		tn.mustClaim("pair", `{replicas: 2, prewarm: Require, templateRef: {kind: Template, name: tools}}`)
		for _, got := range tn.waitClaim("pair", sandbarv1alpha1.ClaimBound).Sandboxes {
			if got.Start != sandbarv1alpha1.StartWarm {
				t.Errorf("%+v", got)
			}
		}
		tn.deleteClaim("pair")
		tn.waitSet("tools", "has two again", hasAgain(2, 3))
	})
	t.Run("under a SandboxTemplate that patches it", func(t *testing.T) {
		tn.mustTemplate("mine", `{templateRef: {kind: Template, name: tools}, patch: {spec: {containers: [{name: main, env: [{name: EDITION, value: mine}]}]}}}`)
		tn.mustSet("mine", `{templateRef: {name: mine}}`)
		tn.waitSet("mine", "has one", hasAvailable(1))
		mine := tn.box("mine", `{prewarm: Require, template: {templateRef: {kind: SandboxTemplate, name: mine}}}`)
		if start := mine.started(); start.Type != sandbarv1alpha1.StartWarm || start.Set.Name != "mine" {
			t.Errorf("it started as %+v", start)
		}
		says(t, mine, "tools mine")
		tn.deleteSets("mine")
	})
	t.Run("and they follow it", func(t *testing.T) {
		before := tn.waitSet("tools", "has two", hasAvailable(2))
		n.edit = edition("second")
		n.apply()
		tn.waitSet("tools", "has two of the new one", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return hasAvailable(2)(s) && s.UpdatedReplicas == 2 && s.Revision != before.Revision
		})
		fresh := tn.box("fresh", `{prewarm: Require, template: {templateRef: {name: tools}}}`) // kind is Template if it is not set
		if start := fresh.started(); start.Type != sandbarv1alpha1.StartWarm {
			t.Errorf("it started as %+v", start)
		}
		says(t, fresh, "tools second")
		says(t, box, "tools second") // one that was taken follows as one that started cold
	})
	t.Run("until it is offered no more", func(t *testing.T) {
		n.edit = func(spec map[string]any) { delete(spec, "base") }
		n.apply()
		tn.waitSet("tools", "says so", isRefused("tools"))
		n.edit = nil
		n.apply()
		tn.waitSet("tools", "has two again", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return hasAvailable(2)(s) && s.UpdatedReplicas == 2 && s.Conditions[0].Status == metav1.ConditionTrue
		})
	})
	tn.deleteSets("tools")
}

// edition has the pod of the example say another word.
func edition(word string) func(map[string]any) {
	return func(spec map[string]any) {
		pod := spec["base"].(map[string]any)["podTemplate"].(map[string]any)["spec"].(map[string]any)
		pod["containers"].([]any)[0].(map[string]any)["env"] = []any{map[string]any{"name": "EDITION", "value": word}}
	}
}

// isRefused tells of a set whose template cannot be used, with a word of why.
func isRefused(word string) func(sandbarv1alpha1.SandboxSetStatus) bool {
	return func(s sandbarv1alpha1.SandboxSetStatus) bool {
		return len(s.Conditions) > 0 && s.Conditions[0].Status == metav1.ConditionFalse && s.Conditions[0].Reason == "TemplateNotUsable" && strings.Contains(s.Conditions[0].Message, word)
	}
}
