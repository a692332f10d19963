// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// PolicyRole is the ClusterRole that says what tenants may do at most; package install makes and binds
// it, this package writes its rules.
const PolicyRole = "sandbar-policy-tenants"

// Verbs that tenants may use at most on a kind.
var (
	AllVerbs = []string{rbacv1.VerbAll}
	// AllButCreate are those on a kind that is to go.
	AllButCreate = []string{"delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	// AllButChange are those on a kind while its schema is narrowed: while nobody may write an object,
	// nobody can set what goes with the former schema.
	AllButChange = []string{"delete", "deletecollection", "get", "list", "watch"}
)

// KindRules are the rules of a kind without further subresources. The subresource status is only ever
// read: the data plane relies on no tenant being able to write it.
func KindRules(resource string, verbs []string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(verbs, resource),
		rule([]string{"get"}, resource+"/status"),
	}
}

// SubresourceRules are the rules of subresources, each of which must be named; nil without one.
func SubresourceRules(resource string, verbs []string, subresources ...string) []rbacv1.PolicyRule {
	if len(subresources) == 0 {
		return nil
	}
	names := make([]string, len(subresources))
	for i, subresource := range subresources {
		names[i] = resource + "/" + subresource
	}
	return []rbacv1.PolicyRule{rule(verbs, names...)}
}

func rule(verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{sandbarv1alpha1.GroupName}, Resources: resources, Verbs: verbs}
}

// SetRules replaces the rules of one resource and its subresources in the policy and leaves those of
// others alone; changed is false if it had them. A conflicting write of another is an error
// (apierrors.IsConflict), and so is a role that does not exist (apierrors.IsNotFound).
func (o *Offers) SetRules(ctx context.Context, resource string, rules []rbacv1.PolicyRule) (changed bool, err error) {
	role := &rbacv1.ClusterRole{}
	if err := o.Policy.Get(ctx, types.NamespacedName{Name: PolicyRole}, role); err != nil {
		return false, fmt.Errorf("reading ClusterRole %s: %w", PolicyRole, err)
	}
	updated := role.DeepCopy()
	updated.Rules = replaceRules(role.Rules, resource, rules)
	if equality.Semantic.DeepEqual(role.Rules, updated.Rules) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(role, client.MergeFromWithOptimisticLock{})
	if err := o.KCP.Patch(ctx, updated, patch); err != nil {
		return false, fmt.Errorf("writing ClusterRole %s: %w", PolicyRole, err)
	}
	return true, nil
}

// replaceRules puts the rules of a resource where its old ones were, so that nothing changes when they
// are the same.
func replaceRules(all []rbacv1.PolicyRule, resource string, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	out := make([]rbacv1.PolicyRule, 0, len(all)+len(rules))
	placed := false
	for _, rule := range all {
		if !Concerns(rule, resource) {
			out = append(out, rule)
			continue
		}
		if !placed {
			out, placed = append(out, rules...), true
		}
	}
	if !placed {
		out = append(out, rules...)
	}
	return out
}

// Concerns reports whether a rule is about the resource or its subresources.
func Concerns(rule rbacv1.PolicyRule, resource string) bool {
	return slices.ContainsFunc(rule.Resources, func(name string) bool {
		return name == resource || strings.HasPrefix(name, resource+"/")
	})
}
