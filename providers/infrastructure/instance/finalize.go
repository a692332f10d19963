// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

const (
	// pruneGrace is how long kro may take to remove the resources in their order before the
	// namespace is deleted under it. It bounds how long a sandbox outlives its instance when
	// kro does not run.
	pruneGrace = 30 * time.Second
	// recheck is how often a deletion is looked at that no event moves on, so that its message
	// says what is left now.
	recheck = 30 * time.Second
)

// finalize removes the placement, waits until it is gone and then lets the object go. Each step
// is taken from what is there, so it goes on after a restart wherever it stood.
func (r *reconciler) finalize(ctx context.Context, req request, s *scope.Scope) (reconcile.Result, error) {
	obj := s.Object()
	if !controllerutil.ContainsFinalizer(obj, placement.Finalizer) {
		return reconcile.Result{}, nil
	}
	left, err := r.remove(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	if left == "" {
		err := r.removeFinalizer(ctx, req, obj)
		if err == nil {
			r.partChanged(req) // also if no watch shows that it is gone (kcp#4364)
		}
		return reconcile.Result{}, ignoreGone(err)
	}
	_, err = r.report(ctx, req, s, outcome.Outcome{Deleting: left})
	return reconcile.Result{RequeueAfter: recheck}, err
}

// remove takes the next step of a removal and says what it waits for; nothing means gone.
func (r *reconciler) remove(ctx context.Context, s *scope.Scope) (left string, err error) {
	// The namespace is read live: the cache may not have seen yet what was created a moment
	// ago, and the finalizer must not go before it.
	ns := &corev1.Namespace{}
	err = r.runtime.live.Get(ctx, types.NamespacedName{Name: s.Placement().Namespace()}, ns)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the placement: %w", err)
	}
	if ns.DeletionTimestamp != nil {
		return namespaceLeft(ns), nil
	}
	pruning, err := r.prune(ctx, s)
	if err != nil {
		return "", err
	}
	if pruning {
		return "waiting for the resources to be removed", nil
	}
	if err := r.runtime.delete(ctx, ns); err != nil {
		return "", err
	}
	return "waiting for the placement to be removed", nil
}

// prune deletes the kro instance and tells whether to wait for kro.
func (r *reconciler) prune(ctx context.Context, s *scope.Scope) (bool, error) {
	instance, err := r.runtime.composed(ctx, s)
	if err != nil || instance == nil {
		return false, err
	}
	if deleted := instance.GetDeletionTimestamp(); deleted != nil {
		return r.now().Sub(deleted.Time) < pruneGrace, nil
	}
	return true, r.runtime.delete(ctx, instance)
}

// namespaceLeft says what a terminating namespace still holds, in the words of its conditions.
func namespaceLeft(ns *corev1.Namespace) string {
	var messages []string
	for _, condition := range ns.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && condition.Message != "" {
			messages = append(messages, condition.Message)
		}
	}
	if len(messages) == 0 {
		return "waiting for the placement to be removed"
	}
	return "waiting for the placement to be removed: " + strings.Join(messages, "; ")
}

func (r *reconciler) removeFinalizer(ctx context.Context, req request, obj *unstructured.Unstructured) error {
	changed := obj.DeepCopy()
	controllerutil.RemoveFinalizer(changed, placement.Finalizer)
	_, err := r.patchMetadata(ctx, req, obj, changed)
	return err
}
