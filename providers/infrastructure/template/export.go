// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
)

// export lets tenants use the kind and offers its schema in the APIExport.
// wait is how long it takes at least until it can go on.
func (r *reconciler) export(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan, schemaName string) (ok bool, wait time.Duration, err error) {
	report := func(status metav1.ConditionStatus, reason, format string, args ...any) {
		setCondition(tmpl, sandbarv1alpha1.TemplateExported, status, reason, format, args...)
	}
	if wait, done, err := r.narrow(ctx, tmpl, p, schemaName); err != nil || !done {
		return false, wait, err
	}
	// The right comes before the offer: kcp denies whatever the policy does not name.
	_, err = r.offers.SetRules(ctx, p.gvr.Resource, tenantRules(p.gvr.Resource, p.dataPlane, offer.AllVerbs))
	if apierrors.IsNotFound(err) {
		report(metav1.ConditionFalse, reasonPolicyMissing, "the provider workspace has no ClusterRole %s; run sandbar-provider init", offer.PolicyRole)
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	export, err := r.offers.SetEntry(ctx, p.gvr.GroupResource(), schemaName)
	if apierrors.IsNotFound(err) {
		report(metav1.ConditionFalse, reasonExportMissing, "the provider workspace has no APIExport %s; run sandbar-provider init", r.offers.ExportName)
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	tmpl.Status.Kind, tmpl.Status.Group = p.kind, p.gvr.Group
	tmpl.Status.Version, tmpl.Status.Resource = p.gvr.Version, p.gvr.Resource
	tmpl.Status.SchemaName, tmpl.Status.DataPlane = schemaName, p.dataPlane
	if problem := offer.NotServed(export); problem != "" {
		report(metav1.ConditionFalse, reasonExportNotReady, "kcp does not serve APIExport %s yet: %s", export.Name, problem)
		return false, 0, nil
	}
	report(metav1.ConditionTrue, reasonExported, "APIExport %s offers %s", export.Name, schemaName)
	return true, 0, nil
}

// tenantRules are the most that tenants may do with a Template's kind. Data-plane verbs are subresources.
func tenantRules(resource string, dp *sandbarv1alpha1.DataPlane, verbs []string) []rbacv1.PolicyRule {
	var subresources, previews, renewals []string
	for _, verb := range contract.Subresources(dp) {
		switch verb {
		case contract.StatusVerb:
		case contract.ProxyURLVerb:
			previews = []string{verb}
		case contract.RenewVerb:
			renewals = []string{verb}
		default:
			subresources = append(subresources, verb)
		}
	}
	return slices.Concat(
		offer.KindRules(resource, verbs),
		offer.SubresourceRules(resource, offer.AllVerbs, subresources...),
		offer.SubresourceRules(resource, []string{"create", "delete"}, previews...),
		offer.SubresourceRules(resource, []string{"create"}, renewals...),
	)
}
