// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
)

// fieldOwner owns what is written on the runtime cluster, and in tenants' workspaces.
const fieldOwner = "sandbar"

// again is how soon a SandboxTemplate is looked at again that is not valid: what it lacks may come, and no
// event tells of all of it.
const again = 30 * time.Second

// reconciler says of each SandboxTemplate whether Sandboxes can be made of it.
type reconciler struct {
	templates *Templates
	provider  client.Reader // of the provider workspace
	runtime   client.Reader
	// names are those of what the provider has on the runtime cluster.
	names placement.Names
	tries *Tries

	mu sync.Mutex
	// known are those that were looked at, by their names: another UID is another SandboxTemplate.
	known map[export.Key]types.UID
}

func newReconciler(templates *Templates, provider client.Reader, runtime client.Client) *reconciler {
	return &reconciler{templates: templates, provider: provider, runtime: runtime, tries: NewTries(runtime, provider), known: map[export.Key]types.UID{}}
}

// Reconcile looks at one SandboxTemplate.
func (r *reconciler) Reconcile(ctx context.Context, key export.Key) (reconcile.Result, error) {
	template, err := r.templates.Own(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	if template == nil || template.DeletionTimestamp != nil {
		r.gone(key)
		return reconcile.Result{}, nil
	}
	r.found(key, template)
	v, err := r.check(ctx, template, r.beside(key))
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.report(ctx, key, template, v); err != nil {
		return reconcile.Result{}, err
	}
	if !v.valid() {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return reconcile.Result{}, nil
}

// found notes a SandboxTemplate and what it refers to. One that is new, or that was made again under its name, is
// told to all that refer to it.
func (r *reconciler) found(key export.Key, template *sandbarv1alpha1.SandboxTemplate) {
	if ref := template.Spec.TemplateRef; ref != nil && ref.Kind == sandbarv1alpha1.RefSandboxTemplate {
		to := key
		to.Name = ref.Name
		r.templates.references.Set(key, to)
	} else {
		r.templates.references.Drop(key)
	}
	r.mu.Lock()
	uid, known := r.known[key]
	r.known[key] = template.UID
	r.mu.Unlock()
	// What an earlier process has looked at is not new because this one starts.
	if known && uid != template.UID || !known && template.Status.ObservedGeneration == 0 {
		r.templates.Changed(key)
	}
}

// gone forgets a SandboxTemplate, and tells all that refer to it.
func (r *reconciler) gone(key export.Key) {
	r.templates.references.Drop(key)
	r.mu.Lock()
	_, known := r.known[key]
	delete(r.known, key)
	r.mu.Unlock()
	if known {
		r.templates.Changed(key)
	}
}

// beside reads the SandboxTemplates of the same namespace.
func (r *reconciler) beside(key export.Key) podbase.Named {
	return func(ctx context.Context, name string) (*sandbarv1alpha1.SandboxTemplate, error) {
		other := key
		other.Name = name
		return r.templates.Named(ctx, other)
	}
}

// settings are what the operator says of pods. Its fields are exported, since equality.Semantic, by which package
// tenantkind sees a change, panics at others.
type settings struct {
	// Infrastructure is nil until the InfrastructureProvider is there.
	Infrastructure *sandbarv1alpha1.InfrastructureProviderSpec
	Offers         podbase.Offers
}

// Says is what the operator says that matters to every pod of a tenant's template: a change of it may change
// each one.
func Says(ctx context.Context, provider, runtime client.Reader, names placement.Names) (any, error) {
	return readSettings(ctx, provider, runtime, names)
}

// readSettings reads them from the caches of the provider workspace and of the runtime cluster.
func readSettings(ctx context.Context, provider, runtime client.Reader, names placement.Names) (s settings, err error) {
	var list sandbarv1alpha1.TemplateList
	if err := provider.List(ctx, &list); err != nil {
		return s, fmt.Errorf("listing the Templates: %w", err)
	}
	s.Offers = podbase.OffersOf(list.Items)
	infrastructure := &sandbarv1alpha1.InfrastructureProvider{}
	err = provider.Get(ctx, types.NamespacedName{Name: sandbarv1alpha1.InfrastructureProviderName}, infrastructure)
	switch {
	case apierrors.IsNotFound(err):
		return s, nil
	case err != nil:
		return s, fmt.Errorf("reading the InfrastructureProvider: %w", err)
	}
	s.Infrastructure, err = platform.Settings(ctx, runtime, names, infrastructure)
	return s, err
}

// report writes the verdict, if the status does not say it already.
func (r *reconciler) report(ctx context.Context, key export.Key, template *sandbarv1alpha1.SandboxTemplate, v verdict) error {
	status := template.Status.DeepCopy()
	status.ObservedGeneration, status.PodHash = template.Generation, v.podHash
	condition := metav1.Condition{
		Type: sandbarv1alpha1.SandboxTemplateValid, Status: metav1.ConditionFalse,
		Reason: v.reason, Message: v.message, ObservedGeneration: template.Generation,
	}
	if v.valid() {
		condition.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	if equality.Semantic.DeepEqual(*status, template.Status) {
		return nil
	}
	data, err := export.StatusPatch(template.Status, status)
	if err != nil {
		return err
	}
	if _, err := r.templates.objects.Patch(ctx, key, data, "status"); err != nil && !export.IsGone(err) {
		return fmt.Errorf("writing the status of SandboxTemplate %s: %w", key.Name, err)
	}
	return nil
}
