// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenantkind

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

// letsGo ends the looks at an object whose workspace, or whose binding there, is gone: kcp then denies reading it, for ever,
// and each workspace that a tenant deletes would cost a look twice a minute until the process ends. A denial alone proves
// nothing: the watch must not show the object either. If the object comes back the watch says so, and the sweep finds what it has left on
// the runtime cluster.
type letsGo struct {
	reconcile.TypedReconciler[export.Key]

	shows func(export.Key) bool // whether the watch shows an object
}

// Reconcile implements reconcile.TypedReconciler.
func (l letsGo) Reconcile(ctx context.Context, key export.Key) (reconcile.Result, error) {
	result, err := l.TypedReconciler.Reconcile(ctx, key)
	if apierrors.IsForbidden(err) && !l.shows(key) {
		log.FromContext(ctx).V(1).Info("the object is gone with its workspace or its binding", "cause", err.Error())
		return reconcile.Result{}, nil
	}
	return result, err
}
