// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// granted is what of a namespace the Baselines that name it have copied: the names of objects by their resource. No names
// mean all objects.
type granted map[string]map[string]bool

// The resources that copies refer to.
const (
	resourceConfigMaps = "configmaps"
	resourceSecrets    = "secrets"
	resourceClaims     = "persistentvolumeclaims"
)

// allObjects stands among names for all objects of a resource. It is the name of none.
const allObjects = "*"

// add adds what a Baseline needs beside its workloads: no more than what it says that tenants get copies of.
func (g granted) add(references *sandbarv1alpha1.BaselineReferences) {
	if references.ConfigMaps.Policy != sandbarv1alpha1.BaselineRefuse {
		g.addNames(resourceConfigMaps, references.ConfigMaps.Names)
	}
	if references.Secrets.Policy == sandbarv1alpha1.BaselineCopy {
		g.addNames(resourceSecrets, references.Secrets.Names)
	}
	if references.Volumes != sandbarv1alpha1.BaselineVolumesRefuse {
		g.addNames(resourceClaims, nil)
	}
}

func (g granted) addNames(resource string, names []string) {
	if g[resource] == nil {
		g[resource] = map[string]bool{}
	}
	if len(names) == 0 {
		names = []string{allObjects}
	}
	for _, name := range names {
		g[resource][name] = true
	}
}

// addRules adds what rules of the Role give already.
func (g granted) addRules(rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			if slices.Contains([]string{resourceConfigMaps, resourceSecrets, resourceClaims}, resource) {
				g.addNames(resource, rule.ResourceNames)
			}
		}
	}
}

// rules are those of the Role: the objects are read one by one, and never listed.
func (g granted) rules() []any {
	var rules []any
	for _, resource := range slices.Sorted(maps.Keys(g)) {
		rule := map[string]any{"apiGroups": []any{""}, "resources": []any{resource}, "verbs": []any{"get"}}
		if names := g.names(resource); names != nil {
			var list []any
			for _, name := range names {
				list = append(list, name)
			}
			rule["resourceNames"] = list
		}
		rules = append(rules, rule)
	}
	return rules
}

// names are those of a resource, sorted; nil for all.
func (g granted) names(resource string) []string {
	if g[resource][allObjects] {
		return nil
	}
	return slices.Sorted(maps.Keys(g[resource]))
}

// String says what is granted, for the administrator who grants it.
func (g granted) String() string {
	texts := []string{"workloads and Services"}
	for _, resource := range []string{resourceConfigMaps, resourceSecrets} {
		kind := map[string]string{resourceConfigMaps: "ConfigMaps", resourceSecrets: "Secrets"}[resource]
		switch names := g.names(resource); {
		case g[resource] == nil:
		case names == nil:
			texts = append(texts, "all "+kind)
		default:
			texts = append(texts, "the "+kind+" "+strings.Join(names, ", "))
		}
	}
	return strings.Join(texts, "; ")
}

// roleOf is the Role of a namespace with the rules for the Baselines that are granted. kept also keeps those that the Role
// has for others.
func (a *applier) roleOf(ctx context.Context, role *unstructured.Unstructured, need granted, kept bool) error {
	if kept {
		there := &unstructured.Unstructured{}
		there.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("Role"))
		err := a.client.Get(ctx, client.ObjectKeyFromObject(role), there)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the Role of namespace %s: %w", role.GetNamespace(), err)
		}
		var now rbacv1.Role
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(there.Object, &now); err != nil {
			return fmt.Errorf("reading the Role of namespace %s: %w", role.GetNamespace(), err)
		}
		need.addRules(now.Rules)
	}
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	if err != nil {
		return fmt.Errorf("reading the rules of Role %s: %w", qualified(role), err)
	}
	return unstructured.SetNestedSlice(role.Object, append(rules, need.rules()...), "rules")
}
