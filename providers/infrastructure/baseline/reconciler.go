// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	decide "github.com/sandbar-dev/sandbar/pkg/baseline"
)

// reconciler writes what was found for a Baseline into its status.
type reconciler struct {
	// kcp reads and writes the provider workspace.
	kcp     client.Client
	sources *sources
	specs   *specs
}

// Reconcile looks at one Baseline. It never waits: a watch wakes it when there is more to know.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := &sandbarv1alpha1.Baseline{}
	err := r.kcp.Get(ctx, req.NamespacedName, b)
	switch {
	case apierrors.IsNotFound(err):
		r.specs.look(req.Name, nil)
	case err == nil:
		r.specs.look(req.Name, b)
	}
	if apierrors.IsNotFound(err) || err == nil && !b.DeletionTimestamp.IsZero() {
		r.sources.want(req.Name, nil)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the Baseline: %w", err)
	}
	before := b.DeepCopy()
	names := readable(&b.Spec)
	r.sources.want(b.Name, names)
	views, rolloutsServed := r.sources.look(names)
	observe(b, views, rolloutsServed)
	return ctrl.Result{}, r.patchStatus(ctx, before, b)
}

// readable are the namespaces of a Baseline that the controllers read if they may.
func readable(spec *sandbarv1alpha1.BaselineSpec) (names []string) {
	for _, namespace := range spec.Namespaces {
		if !decide.Reserved(namespace.Name) {
			names = append(names, namespace.Name)
		}
	}
	return names
}

// observe sets the status to what the views show.
func observe(b *sandbarv1alpha1.Baseline, views map[string]view, rolloutsServed bool) {
	for _, name := range readable(&b.Spec) {
		if views[name].state != unread {
			continue
		}
		// What was found before holds while the controllers start, but not for another spec: it might show what the
		// operator has just taken out.
		if b.Status.ObservedGeneration != b.Generation {
			choice{}.into(&b.Status)
			concludeUnread(b)
			b.Status.ObservedGeneration = b.Generation
		}
		return
	}
	b.Status.ObservedGeneration = b.Generation
	ofWorkloads, ofServices, err := decide.Filters(&b.Spec)
	if err != nil {
		choice{}.into(&b.Status)
		conclude(b, []problem{{reasonSelector, err.Error() + ": correct it"}})
		return
	}
	c := choose(&b.Spec, views, ofWorkloads, ofServices)
	c.into(&b.Status)
	problems := problemsOf(b, views, rolloutsServed)
	if len(problems) == 0 { // else what is absent may be where nobody could look
		problems = problemsOfChoice(c)
	}
	conclude(b, problems)
}

// patchStatus writes the status if it has changed. A Baseline that is gone has none to write.
func (r *reconciler) patchStatus(ctx context.Context, before, b *sandbarv1alpha1.Baseline) error {
	if equality.Semantic.DeepEqual(before.Status, b.Status) {
		return nil
	}
	if err := r.kcp.Status().Patch(ctx, b, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Baseline %s: %w", b.Name, err)
	}
	return nil
}
