// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/builtin"
)

// A kind that exists nowhere but in a register gets its policy and its place in the roles by its entry alone.
func TestAKindThatIsAddedToTheRegisterGetsItsPolicyAndItsRoles(t *testing.T) {
	kinds := append(slices.Clone(builtin.Kinds), builtin.Kind{
		Name: "Throwaway", Resource: "throwaways", Subresources: []string{"scale"}, Calls: []string{"throw"}, Reads: []string{"weigh"}, Shown: []string{"watch"},
		Immutable: []string{"size", "colour"}, ImmutableMessage: `a Throwaway does not change; "create" another one`,
	})
	policies, err := immutablePolicies(kinds)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(policies, func(o *unstructured.Unstructured) bool {
		return o.GetName() == "sandbar-throwaways" && o.GetKind() == "ValidatingAdmissionPolicy"
	})
	if i < 0 || policies[i+1].GetName() != "sandbar-throwaways" {
		t.Fatalf("there is no policy of throwaways, with its binding, in %v", policies)
	}
	validations, _, _ := unstructured.NestedSlice(policies[i].Object, "spec", "validations")
	validation := validations[0].(map[string]any)
	if said := validation["message"]; said != `a Throwaway does not change; "create" another one` {
		t.Errorf("the tenant is told %q", said)
	}
	if expression := validation["expression"].(string); !strings.HasPrefix(expression, `["size", "colour"].all(`) {
		t.Errorf("it evaluates %s", expression)
	}

	for name, want := range map[string][]string{
		"viewer":    {"get throwaways", "list throwaways", "watch throwaways", "get throwaways/status", "get throwaways/watch"},
		"operator":  {"create throwaways", "delete throwaways", "get throwaways/status", "update throwaways/scale", "create throwaways/throw", "get throwaways/weigh", "get throwaways/watch"},
		"previewer": {},
	} {
		raw, err := tenantRole(name, kinds)
		if err != nil {
			t.Fatal(err)
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict(raw, role); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := rightsOfRole(role)
		for _, right := range want {
			if !got[right] {
				t.Errorf("%s does not have %q", name, right)
			}
		}
		if len(want) == 0 && strings.Contains(string(raw), "throwaways") {
			t.Errorf("%s has throwaways:\n%s", name, raw)
		}
	}
}
