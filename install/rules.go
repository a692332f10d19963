// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"embed"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// generated are the roles that make generate makes of the markers in the packages below rbac/,
// one of which stands for each identity and says why it has each right.
//
//go:embed rbac/*/zz_generated.role.yaml
var generated embed.FS

// giveRules completes the roles among objects. A manifest has everything of a role but its
// rules: its labels, which the generator does not know, and its place in the order of applying,
// before its binding. A role for which nothing is generated has rules that init must not own. names are those of
// the provider where the objects are: the markers say those of a provider without a name.
func giveRules(objects []*unstructured.Unstructured, opts Options, names placement.Names) error {
	roles, err := read(generated, "rbac/*/*.yaml", leftOpen(opts))
	if err != nil {
		return err
	}
	rules := map[string]any{}
	for _, role := range roles {
		rename(role, names)
		rules[roleKey(role)] = role.Object["rules"]
	}
	for _, object := range objects {
		if some, ok := rules[roleKey(object)]; ok {
			object.Object["rules"] = some
		}
	}
	return nil
}

// rename gives a generated role the names and the group of a provider.
func rename(role *unstructured.Unstructured, names placement.Names) {
	switch role.GetNamespace() {
	case "":
		role.SetName(names.Prefix() + strings.TrimPrefix(role.GetName(), placement.ManagedBy))
	case placement.SystemNamespace:
		role.SetNamespace(names.SystemNamespace())
	case placement.NetworkCheckNamespace:
		role.SetNamespace(names.NetworkCheckNamespace())
	}
	rules, _ := role.Object["rules"].([]any)
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		groups, _ := rule["apiGroups"].([]any)
		for i, group := range groups {
			if group == sandbarv1alpha1.GroupName {
				groups[i] = names.Group()
			}
		}
	}
}

func roleKey(role *unstructured.Unstructured) string {
	return role.GetKind() + " " + qualified(role)
}
