// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"embed"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// generated are the roles that make generate makes of the markers in the packages below rbac/,
// one of which stands for each identity and says why it has each right.
//
//go:embed rbac/*/zz_generated.role.yaml
var generated embed.FS

// giveRules completes the roles among objects. A manifest has everything of a role but its
// rules: its labels, which the generator does not know, and its place in the order of applying,
// before its binding. A role for which nothing is generated has rules that init must not own.
func giveRules(objects []*unstructured.Unstructured, opts Options) error {
	roles, err := read(generated, "rbac/*/*.yaml", names(opts))
	if err != nil {
		return err
	}
	rules := map[string]any{}
	for _, role := range roles {
		rules[roleKey(role)] = role.Object["rules"]
	}
	for _, object := range objects {
		if some, ok := rules[roleKey(object)]; ok {
			object.Object["rules"] = some
		}
	}
	return nil
}

func roleKey(role *unstructured.Unstructured) string {
	return role.GetKind() + " " + qualified(role)
}
