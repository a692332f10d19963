// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestReplacingRulesLeavesThoseOfOthersAlone(t *testing.T) {
	rule := func(resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Resources: resources, Verbs: []string{"*"}}
	}
	for name, tc := range map[string]struct {
		resource         string
		all, rules, want []rbacv1.PolicyRule
	}{
		"the first": {
			resource: "a",
			rules:    []rbacv1.PolicyRule{rule("a")},
			want:     []rbacv1.PolicyRule{rule("a")},
		},
		"another": {
			resource: "b",
			all:      []rbacv1.PolicyRule{rule("a"), rule("a/log")},
			rules:    []rbacv1.PolicyRule{rule("b")},
			want:     []rbacv1.PolicyRule{rule("a"), rule("a/log"), rule("b")},
		},
		"a change in place": {
			resource: "a",
			all:      []rbacv1.PolicyRule{rule("a"), rule("a/log"), rule("b")},
			rules:    []rbacv1.PolicyRule{rule("a"), rule("a/sync")},
			want:     []rbacv1.PolicyRule{rule("a"), rule("a/sync"), rule("b")},
		},
		"a removal": {
			resource: "b",
			all:      []rbacv1.PolicyRule{rule("a"), rule("b"), rule("b/log")},
			want:     []rbacv1.PolicyRule{rule("a")},
		},
		"a name that begins alike is another": {
			resource: "redis",
			all:      []rbacv1.PolicyRule{rule("redisservers"), rule("redis/log")},
			want:     []rbacv1.PolicyRule{rule("redisservers")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := replaceRules(tc.all, tc.resource, tc.rules)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := replaceRules(got, tc.resource, tc.rules); cmp.Diff(got, again) != "" {
				t.Error("replacing them again changes something")
			}
		})
	}
}
