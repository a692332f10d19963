// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"fmt"
	"slices"

	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

// export lets tenants use the kind and offers its schema in the APIExport.
func (r *reconciler) export(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan, schemaName string) (ok bool, err error) {
	report := func(status metav1.ConditionStatus, reason, format string, args ...any) {
		setCondition(tmpl, sandbarv1alpha1.TemplateExported, status, reason, format, args...)
	}
	// The right comes before the offer: kcp denies whatever the policy does not name.
	_, err = r.setPolicy(ctx, p.gvr.Resource, tenantRules(p.gvr.Resource, p.dataPlane, allVerbs))
	if apierrors.IsNotFound(err) {
		report(metav1.ConditionFalse, reasonPolicyMissing, "the provider workspace has no ClusterRole %s; run sandbar-provider init", PolicyRole)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	export, err := r.setEntry(ctx, p.gvr.GroupResource(), schemaName)
	if apierrors.IsNotFound(err) {
		report(metav1.ConditionFalse, reasonExportMissing, "the provider workspace has no APIExport %s; run sandbar-provider init", r.opts.ExportName)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	tmpl.Status.Kind, tmpl.Status.Group = p.kind, p.gvr.Group
	tmpl.Status.Version, tmpl.Status.Resource = p.gvr.Version, p.gvr.Resource
	tmpl.Status.SchemaName = schemaName
	if problem := notServed(export); problem != "" {
		report(metav1.ConditionFalse, reasonExportNotReady, "kcp does not serve APIExport %s yet: %s", export.Name, problem)
		return false, nil
	}
	report(metav1.ConditionTrue, reasonExported, "APIExport %s offers %s", export.Name, schemaName)
	return true, nil
}

// notServed says why an export cannot be bound.
func notServed(export *kcpapisv1alpha2.APIExport) string {
	for _, c := range export.Status.Conditions {
		if c.Type == kcpapisv1alpha2.APIExportIdentityValid && c.Status == corev1.ConditionTrue {
			return ""
		}
		if c.Type == kcpapisv1alpha2.APIExportIdentityValid {
			return c.Message
		}
	}
	return "it has no identity"
}

func findEntry(export *kcpapisv1alpha2.APIExport, resource schema.GroupResource) *kcpapisv1alpha2.ResourceSchema {
	for i := range export.Spec.Resources {
		if entry := &export.Spec.Resources[i]; entry.Name == resource.Resource && entry.Group == resource.Group {
			return entry
		}
	}
	return nil
}

// setEntry makes the export offer the resource with the schema; an empty schemaName withdraws
// it. Other entries stay as they are. A conflicting write of another is an error, so that the
// reconcile is tried again with what the other wrote.
func (r *reconciler) setEntry(ctx context.Context, resource schema.GroupResource, schemaName string) (*kcpapisv1alpha2.APIExport, error) {
	export := &kcpapisv1alpha2.APIExport{}
	if err := r.kcp.Get(ctx, types.NamespacedName{Name: r.opts.ExportName}, export); err != nil {
		return nil, fmt.Errorf("reading APIExport %s: %w", r.opts.ExportName, err)
	}
	entry := findEntry(export, resource)
	updated := export.DeepCopy()
	switch {
	case schemaName == "" && entry == nil, entry != nil && entry.Schema == schemaName:
		return export, nil
	case schemaName == "":
		updated.Spec.Resources = slices.DeleteFunc(updated.Spec.Resources, func(e kcpapisv1alpha2.ResourceSchema) bool {
			return e.Name == resource.Resource && e.Group == resource.Group
		})
	case entry == nil:
		updated.Spec.Resources = append(updated.Spec.Resources, kcpapisv1alpha2.ResourceSchema{
			Name: resource.Resource, Group: resource.Group, Schema: schemaName,
			Storage: kcpapisv1alpha2.ResourceSchemaStorage{CRD: &kcpapisv1alpha2.ResourceSchemaStorageCRD{}},
		})
	default:
		findEntry(updated, resource).Schema = schemaName
	}
	patch := client.MergeFromWithOptions(export, client.MergeFromWithOptimisticLock{})
	if err := r.kcp.Patch(ctx, updated, patch); err != nil {
		return nil, fmt.Errorf("offering %s in APIExport %s: %w", resource, r.opts.ExportName, err)
	}
	return updated, nil
}

var (
	allVerbs = []string{rbacv1.VerbAll}
	// allButCreate are the verbs on a kind whose Template is to go.
	allButCreate = []string{"delete", "deletecollection", "get", "list", "patch", "update", "watch"}
)

// tenantRules are the most that tenants may do with a kind. Data-plane verbs are subresources,
// each of which must be named. The subresource status is only ever read: the data plane relies
// on no tenant being able to write it.
func tenantRules(resource string, dp *sandbarv1alpha1.DataPlane, verbs []string) []rbacv1.PolicyRule {
	groups := []string{sandbarv1alpha1.GroupName}
	rules := []rbacv1.PolicyRule{
		{APIGroups: groups, Resources: []string{resource}, Verbs: verbs},
		{APIGroups: groups, Resources: []string{resource + "/" + contract.StatusVerb}, Verbs: []string{"get"}},
	}
	var subresources, previews, renewals []string
	for _, verb := range contract.Subresources(dp) {
		switch verb {
		case contract.StatusVerb:
		case contract.ProxyURLVerb:
			previews = []string{resource + "/" + verb}
		case contract.RenewVerb:
			renewals = []string{resource + "/" + verb}
		default:
			subresources = append(subresources, resource+"/"+verb)
		}
	}
	if len(subresources) > 0 {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: groups, Resources: subresources, Verbs: allVerbs})
	}
	if len(previews) > 0 {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: groups, Resources: previews, Verbs: []string{"create", "delete"}})
	}
	return append(rules, rbacv1.PolicyRule{APIGroups: groups, Resources: renewals, Verbs: []string{"create"}})
}

// setPolicy replaces the rules of one resource in the policy and leaves those of others alone.
func (r *reconciler) setPolicy(ctx context.Context, resource string, rules []rbacv1.PolicyRule) (changed bool, err error) {
	role := &rbacv1.ClusterRole{}
	if err := r.policy.Get(ctx, types.NamespacedName{Name: PolicyRole}, role); err != nil {
		return false, fmt.Errorf("reading ClusterRole %s: %w", PolicyRole, err)
	}
	updated := role.DeepCopy()
	updated.Rules = replaceRules(role.Rules, resource, rules)
	if equality.Semantic.DeepEqual(role.Rules, updated.Rules) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(role, client.MergeFromWithOptimisticLock{})
	if err := r.kcp.Patch(ctx, updated, patch); err != nil {
		return false, fmt.Errorf("writing ClusterRole %s: %w", PolicyRole, err)
	}
	return true, nil
}

// replaceRules puts the rules of a resource where its old ones were, so that nothing changes
// when they are the same.
func replaceRules(all []rbacv1.PolicyRule, resource string, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	out := make([]rbacv1.PolicyRule, 0, len(all)+len(rules))
	placed := false
	for _, rule := range all {
		if !concerns(rule, resource) {
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

// concerns tells whether a rule is about the resource or its subresources.
func concerns(rule rbacv1.PolicyRule, resource string) bool {
	return slices.ContainsFunc(rule.Resources, func(name string) bool {
		return name == resource || (len(name) > len(resource) && name[:len(resource)+1] == resource+"/")
	})
}
