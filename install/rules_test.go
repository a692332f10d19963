// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
)

func isRole(object *unstructured.Unstructured) bool {
	return object.GetKind() == "ClusterRole" || object.GetKind() == "Role"
}

// A role that finds no rules is applied all the same, and denies everything.
func TestEveryRoleHasItsGeneratedRulesAndTheseAreAllApplied(t *testing.T) {
	applied := map[string]bool{}
	granted, err := baselineObjects(testOptions(), ruledNamespace)
	if err != nil {
		t.Fatal(err)
	}
	proxied, err := interceptionObjects(testOptions(), proxiedNamespace)
	if err != nil {
		t.Fatal(err)
	}
	granted = append(granted, proxied...)
	for _, object := range append(append(objectsOf(t, "kcp", true), objectsOf(t, "runtime", true)...), granted...) {
		if !isRole(object) || object.GetName() == offer.PolicyRole {
			continue
		}
		applied[roleKey(object)] = true
		if rules, _, err := unstructured.NestedSlice(object.Object, "rules"); err != nil || len(rules) == 0 {
			t.Errorf("%s has no rules (%v)", roleKey(object), err)
		}
	}
	roles, err := read(generated, "rbac/*/*.yaml", leftOpen(testOptions()))
	if err != nil || len(roles) == 0 {
		t.Fatalf("%d generated roles, %v", len(roles), err)
	}
	for _, role := range roles {
		if !applied[roleKey(role)] {
			t.Errorf("%s is generated and no manifest applies it", roleKey(role))
		}
		delete(applied, roleKey(role))
	}
	for left := range applied {
		t.Errorf("the rules of %s are written by hand", left)
	}
}

func TestRightsOnTheExportAreOnTheOneThatIsMade(t *testing.T) {
	opts := testOptions()
	opts.ExportName = "other.test"
	objects, err := kcpObjects(opts, true)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, object := range objects {
		if !isRole(object) {
			continue
		}
		raw, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		named += strings.Count(string(raw), `"resourceNames":["other.test"]`)
		if strings.Contains(string(raw), "{{") || strings.Contains(string(raw), `"resourceNames":["`+testOptions().ExportName) {
			t.Errorf("%s names another export: %s", roleKey(object), raw)
		}
	}
	// Of tenants: bind. Of the controllers: its spec, and its content. Of serve: its content.
	if named != 4 {
		t.Errorf("%d rules name the export, want 4", named)
	}
}
