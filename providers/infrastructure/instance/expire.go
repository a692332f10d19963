// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// lookLasts is how long after the live look at an instance's use it may be deleted for it. A process
// that was stopped in between must look again: another one may lead by now, and the instance be used.
const lookLasts = 10 * time.Second

// expire deletes the tenant's object at the end of its lifetime, after a last look at kcp: the
// cache may not know yet of a renewal. A change after that look makes kcp refuse the deletion.
func (r *reconciler) expire(ctx context.Context, req request, s *scope.Scope, p outcome.Plan) (reconcile.Result, error) {
	live, err := r.tenants.Live(ctx, req)
	if err != nil {
		return reconcile.Result{}, ignoreGone(fmt.Errorf("confirming the instance: %w", err))
	}
	if live.GetUID() != s.Object().GetUID() || live.GetGeneration() != s.Object().GetGeneration() || live.GetDeletionTimestamp() != nil {
		// Its event is on the way; look again should it be lost.
		return reconcile.Result{RequeueAfter: recheck}, nil
	}
	if p.Deleted == sandbarv1alpha1.SuspendedUnused {
		err = r.claim(ctx, p.Lease)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // it is used at this moment
			return reconcile.Result{RequeueAfter: recheck}, nil
		}
		if err != nil {
			return reconcile.Result{}, err
		}
	}
	if inuse.Elapsed(p.Looked, r.clock().Now()) > lookLasts {
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	}
	log.FromContext(ctx).Info("deleting an instance at the end of its lifetime", "cause", p.Deleted, "lastUsed", p.Used.Used)
	err = r.tenants.Remove(ctx, req, live)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: recheck}, nil
	}
	if err != nil {
		return reconcile.Result{}, ignoreGone(fmt.Errorf("deleting the instance: %w", err))
	}
	countLifecycle(s.Kind(), p)
	r.tell(ctx, req, s, string(p.Deleted), deletionMessages[p.Deleted])
	return reconcile.Result{}, nil
}

// claim marks the Lease of an instance that is to be deleted for being unused, under the version
// that said so. A use that is recorded before it makes the claim fail; the data plane lets nobody use
// the instance after it. Between the look and the deletion there is no moment for a use.
func (r *reconciler) claim(ctx context.Context, lease *coordinationv1.Lease) error {
	marked := lease.DeepCopy()
	if marked.Annotations == nil {
		marked.Annotations = map[string]string{}
	}
	marked.Annotations[placement.AnnotationEnding] = r.clock().Now().UTC().Format(time.RFC3339Nano)
	err := r.runtime.client.Patch(ctx, marked,
		client.MergeFromWithOptions(lease, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	if err != nil {
		return fmt.Errorf("marking Lease %s: %w", lease.Name, err)
	}
	return nil
}
