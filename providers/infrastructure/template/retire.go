// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
)

const (
	// policySettles is how long a withdrawn right may still be granted by kcp's caches.
	policySettles = 2 * time.Second
	// recount is how often tenants' instances without a placement are counted again, which no
	// watch of ours sees go.
	recount = 15 * time.Second
)

// retire removes a Template and all that was made of it. While instances are left it only stops
// new ones, and what is there keeps working.
func (r *reconciler) retire(ctx context.Context, tmpl *sandbarv1alpha1.Template) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(tmpl, Finalizer) {
		return ctrl.Result{}, nil
	}
	r.forget(tmpl.Name)
	entry, err := r.ownEntry(ctx, tmpl.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if entry != nil {
		if wait, err := r.emptied(ctx, tmpl, entry); err != nil || wait != nil {
			return value(wait), err
		}
	}
	ready(tmpl, reasonDeleting, "no instance is left; the API and the graph are being removed")
	if err := r.withdraw(ctx, tmpl, entry); err != nil {
		return ctrl.Result{}, err
	}
	if gone, err := r.removeGraph(ctx, tmpl.Name); err != nil || !gone {
		return ctrl.Result{}, err
	}
	tmpl.Status.Rollout = nil
	if err := r.collectValues(ctx, tmpl, nil); err != nil {
		return ctrl.Result{}, err
	}
	r.rollouts.Forget(tmpl.Name)
	if err := r.collectSchemas(ctx, tmpl, ""); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.setFinalizer(ctx, tmpl, false)
}

// forget drops what is remembered of a Template: another one of the same name begins from the start.
func (r *reconciler) forget(template string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.own, template)
	delete(r.narrowings, template)
	delete(r.looks, template)
}

func value(result *ctrl.Result) ctrl.Result {
	if result == nil {
		return ctrl.Result{}
	}
	return *result
}

func ready(tmpl *sandbarv1alpha1.Template, reason, format string, args ...any) {
	setCondition(tmpl, sandbarv1alpha1.TemplateReady, metav1.ConditionFalse, reason, format, args...)
}

// ownEntry is the export's entry that this Template made, known by its schema's label: the
// status may be older than a crash.
func (r *reconciler) ownEntry(ctx context.Context, template string) (*kcpapisv1alpha2.ResourceSchema, error) {
	offers := &kcpapisv1alpha2.APIExport{}
	if err := r.kcp.Get(ctx, types.NamespacedName{Name: r.offers.ExportName}, offers); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading APIExport %s: %w", r.offers.ExportName, err)
	}
	schemas, err := r.schemasOf(ctx, template)
	if err != nil {
		return nil, err
	}
	for i := range schemas {
		for j := range offers.Spec.Resources {
			if offers.Spec.Resources[j].Schema == schemas[i].Name {
				return &offers.Spec.Resources[j], nil
			}
		}
	}
	return nil, nil
}

// emptied stops new instances and returns nil once none is left, or how to wait for that.
func (r *reconciler) emptied(ctx context.Context, tmpl *sandbarv1alpha1.Template, entry *kcpapisv1alpha2.ResourceSchema) (*ctrl.Result, error) {
	stopped, err := r.offers.SetRules(ctx, entry.Name, tenantRules(entry.Name, contract.InForce(tmpl), offer.AllButCreate))
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	live, err := r.countInstances(ctx, tmpl, entry)
	if err != nil {
		ready(tmpl, reasonInUse, "the instances cannot be counted now, so the Template stays: %v", err)
		return nil, err
	}
	if left := max(live, tmpl.Status.Instances); left > 0 {
		ready(tmpl, reasonInUse, "%d %s left; the Template stays and they keep working until they are gone, and no new ones are taken. "+
			"Delete them in their workspaces: the namespaces with the label %s=%s on the runtime cluster say which those are",
			left, entry.Name, placement.LabelTemplate, tmpl.Name)
		if live > tmpl.Status.Instances {
			return &ctrl.Result{RequeueAfter: recount}, nil
		}
		return &ctrl.Result{}, nil
	}
	_, members, err := r.countPlacements(ctx, tmpl)
	if err != nil {
		return nil, err
	}
	if members > 0 {
		ready(tmpl, reasonInUse, "no instance is left, but %d sandboxes that SandboxSets keep ready; delete the sets: the annotations %s and %s of the namespaces with the label %s say which those are",
			members, placement.AnnotationSetNamespace, placement.AnnotationSetName, placement.LabelSetUID)
		return &ctrl.Result{RequeueAfter: recount}, nil
	}
	if stopped {
		// One may have been created just before; look again when none can be any more.
		ready(tmpl, reasonDeleting, "no instance is left; new ones are not taken any more")
		return &ctrl.Result{RequeueAfter: policySettles}, nil
	}
	return nil, nil
}

// countPlacements counts what stands on the runtime cluster for instances of the Template, and what
// SandboxSets keep ready of it.
func (r *reconciler) countPlacements(ctx context.Context, tmpl *sandbarv1alpha1.Template) (instances, members int64, err error) {
	var list corev1.NamespaceList
	// They are only read, so the cache's objects need not be copied.
	err = r.runtime.List(ctx, &list, client.MatchingLabels{placement.LabelTemplate: tmpl.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return 0, 0, fmt.Errorf("counting the placements of Template %s: %w", tmpl.Name, err)
	}
	provider := logicalcluster.From(tmpl).String()
	for i := range list.Items {
		if placement.ProviderOf(&list.Items[i]) != provider {
			continue // another provider has a Template of this name
		}
		if _, ok := placement.MemberOf(&list.Items[i]); ok {
			members++
		} else {
			instances++
		}
	}
	return instances, members, nil
}

// countInstances counts the instances in all workspaces, live and on every shard. An export
// without endpoints has no binding, and so no instance.
func (r *reconciler) countInstances(ctx context.Context, tmpl *sandbarv1alpha1.Template, entry *kcpapisv1alpha2.ResourceSchema) (int64, error) {
	shards, err := r.shards(ctx)
	if err != nil {
		return 0, err
	}
	gvr := schema.GroupVersionResource{Group: entry.Group, Version: tmpl.Status.Version, Resource: entry.Name}
	if gvr.Version == "" {
		p, err := newPlan(tmpl)
		if err != nil {
			return 0, err
		}
		gvr.Version = p.gvr.Version
	}
	var total int64
	for _, shard := range shards {
		count, err := shard.Count(ctx, gvr)
		if err != nil {
			return 0, err
		}
		total += count
	}
	return total, nil
}

// shards are the shards where tenants have bound the export.
func (r *reconciler) shards(ctx context.Context) ([]*export.Shard, error) {
	endpoints, err := export.ReadEndpoints(ctx, r.kcp, r.offers.ExportName)
	if err != nil {
		return nil, err
	}
	return endpoints.Shards(r.kcpConfig)
}

// withdraw takes the kind out of the export and the policy.
func (r *reconciler) withdraw(ctx context.Context, tmpl *sandbarv1alpha1.Template, entry *kcpapisv1alpha2.ResourceSchema) error {
	resource := tmpl.Status.Resource
	if entry != nil {
		resource = entry.Name
		if _, err := r.offers.SetEntry(ctx, schema.GroupResource{Group: entry.Group, Resource: entry.Name}, ""); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if resource == "" {
		return nil // it never came so far
	}
	if _, err := r.offers.SetRules(ctx, resource, nil); client.IgnoreNotFound(err) != nil {
		return err
	}
	setCondition(tmpl, sandbarv1alpha1.TemplateExported, metav1.ConditionFalse, reasonWithdrawn, "the Template is being deleted")
	return nil
}

// removeGraph deletes the Template's ResourceGraphDefinition; gone is false until kro has let
// it go.
func (r *reconciler) removeGraph(ctx context.Context, name string) (gone bool, err error) {
	rgd, template := &krov1alpha1.ResourceGraphDefinition{}, name
	name = r.names.Graph(template)
	if err := r.runtime.Get(ctx, types.NamespacedName{Name: name}, rgd); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, fmt.Errorf("reading ResourceGraphDefinition %s: %w", name, err)
	}
	if !r.isOurs(rgd, template) {
		return true, nil
	}
	if !rgd.DeletionTimestamp.IsZero() {
		return false, nil
	}
	err = r.runtime.Delete(ctx, rgd, client.Preconditions{UID: &rgd.UID})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("deleting ResourceGraphDefinition %s: %w", name, err)
	}
	return false, nil
}
