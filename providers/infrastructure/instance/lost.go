// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// placementLost returns a loss if the instance had a placement, by its status, and its namespace is gone
// or being deleted. The cache may be behind, and must not accuse anybody: the API server has the last
// word.
func (r *reconciler) placementLost(ctx context.Context, s *scope.Scope) error {
	if !meta.IsStatusConditionTrue(s.Status().Conditions, sandbarv1alpha1.InstancePlaced) {
		return nil
	}
	ns, key := &corev1.Namespace{}, types.NamespacedName{Name: s.Placement().Namespace()}
	if err := r.runtime.client.Get(ctx, key, ns); err == nil && ns.DeletionTimestamp == nil {
		return nil
	}
	there, err := r.namespaceThere(ctx, s)
	if err != nil || there {
		return err
	}
	return outcome.LostPlacement()
}

// namespaceThere asks the API server whether the placement's namespace is there and stays.
func (r *reconciler) namespaceThere(ctx context.Context, s *scope.Scope) (bool, error) {
	ns := &corev1.Namespace{}
	err := r.runtime.live.Get(ctx, types.NamespacedName{Name: s.Placement().Namespace()}, ns)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the placement: %w", err)
	}
	return ns.DeletionTimestamp == nil, nil
}

// resourcesLost returns a loss if the kro instance, as current, is being deleted, or if there was one, by the status,
// and there is none. The provider itself deletes it only for an instance that is being deleted.
func (r *reconciler) resourcesLost(ctx context.Context, s *scope.Scope, current *unstructured.Unstructured) error {
	old := s.Status()
	switch deleting := current != nil && current.GetDeletionTimestamp() != nil; {
	case deleting && outcome.ConditionReason(old, sandbarv1alpha1.InstanceComposed) == outcome.ReasonResourcesLost:
		return outcome.LostResources(false)
	case deleting, current == nil && outcome.WasComposed(old):
	default:
		return nil
	}
	there, err := r.namespaceThere(ctx, s)
	switch {
	case err != nil:
		return err
	case !there:
		return outcome.LostPlacement() // the cache has not heard of it yet
	}
	if current == nil {
		// While an API server starts it may not know the kind; that says nothing of the kro instance.
		key := types.NamespacedName{Namespace: s.Placement().Namespace(), Name: s.Placement().InstanceName()}
		err := r.runtime.live.Get(ctx, key, s.NewComposed())
		switch {
		case err == nil:
			return nil
		case !export.IsGone(err):
			return fmt.Errorf("reading the kro instance: %w", err)
		}
	}
	return outcome.LostResources(true)
}

// snapshotsLost returns a loss if a placement keeps nothing of the workloads, though the kro instance, as current, has copies of
// them: what is kept is written first. A loss that the status tells is none any more.
func (r *reconciler) snapshotsLost(ctx context.Context, s *scope.Scope, current *unstructured.Unstructured) error {
	if current == nil || outcome.ConditionReason(s.Status(), sandbarv1alpha1.InstanceComposed) == outcome.ReasonSnapshotsLost {
		return nil
	}
	there, err := r.namespaceThere(ctx, s)
	switch {
	case err != nil:
		return err
	case !there:
		return outcome.LostPlacement() // the cache has not heard of it yet
	}
	return outcome.LostSnapshots()
}

// tellLoss writes a loss into the status before anything is created again, and tells of it. In this
// order a loss is never forgotten: after a failure before the write, what was deleted is still missing.
func (r *reconciler) tellLoss(ctx context.Context, req request, s *scope.Scope, used inuse.Record, err error) (reconcile.Result, error) {
	lost := outcome.LossOf(err)
	if lost == nil {
		return reconcile.Result{}, err
	}
	o := outcome.Outcome{Lost: lost, Plan: outcome.Plan{Used: used}}
	if lost.Reason == outcome.ReasonPlacementLost {
		o.Placing = lost
	} else {
		o.Composing = lost
	}
	if _, err := r.report(ctx, req, s, o); err != nil {
		return reconcile.Result{}, err
	}
	lostTotal.WithLabelValues(lost.Reason).Inc()
	log.FromContext(ctx).Info("somebody deleted what an instance had on the runtime cluster; it is created again, with empty volumes, or of its workloads as they are now",
		"reason", lost.Reason, "placement", s.Placement().Namespace())
	r.tell(ctx, req, s, lost.Reason, lost.Message)
	return reconcile.Result{RequeueAfter: time.Millisecond}, nil
}
