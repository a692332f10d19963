// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// ensureLease makes the Lease that tells when the instance was last used, and counts as use what
// the data plane does not see: that the instance is made, and each change of its spec. So an
// instance that is resumed, or whose lifecycle gets its first or another duration, has that
// duration ahead of it. A Lease that is lost is made anew and says "used now".
// It returns what the Lease says.
func (r *reconciler) ensureLease(ctx context.Context, s *scope.Scope) (used inuse.Record, err error) {
	desired, current := place.BuildLease(s, r.clock().Later()), &coordinationv1.Lease{}
	key := client.ObjectKeyFromObject(desired)
	err = r.runtime.client.Get(ctx, key, current)
	defer func() { used = used.Since(s.Placement().Adopted.At) }()
	if apierrors.IsNotFound(err) {
		err = r.runtime.client.Create(ctx, desired, client.FieldOwner(fieldOwner))
		switch {
		case err == nil:
			return inuse.RecordOf(desired), nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return used, fmt.Errorf("creating Lease %s: %w", key.Name, outcome.ErrTerminating)
		case !apierrors.IsAlreadyExists(err):
			return used, fmt.Errorf("creating Lease %s: %w", key.Name, err)
		}
		err = r.runtime.live.Get(ctx, key, current) // the cache lags
	}
	if err != nil {
		return used, fmt.Errorf("reading Lease %s: %w", key.Name, err)
	}
	used, err = r.touchLease(ctx, s, desired, current)
	if apierrors.IsConflict(err) { // used meanwhile
		if err = r.runtime.live.Get(ctx, key, current); err == nil {
			used, err = r.touchLease(ctx, s, desired, current)
		}
	}
	if err != nil {
		return used, fmt.Errorf("writing Lease %s: %w", key.Name, err)
	}
	return used, nil
}

// touchLease writes what is missing in the Lease, under the version that was read: without it a use
// that the data plane records at the same moment would be taken back. It returns what the Lease says
// afterwards: a use that could not be written is not told.
func (r *reconciler) touchLease(ctx context.Context, s *scope.Scope, desired, current *coordinationv1.Lease) (inuse.Record, error) {
	touched := current.DeepCopy()
	touched.Labels = labels.Merge(current.Labels, desired.Labels)
	touched.Annotations = labels.Merge(current.Annotations, desired.Annotations)
	delete(touched.Annotations, placement.AnnotationEnding) // whether it ends is decided anew each time
	known, now := inuse.RecordOf(current), desired.Spec.RenewTime.Time
	changed := !seenAs(s, current.Annotations[place.AnnotationGeneration])
	if changed && known.Used.Before(now) || !known.Believable(now) {
		touched.Spec.RenewTime = desired.Spec.RenewTime
	}
	if equality.Semantic.DeepEqual(current, touched) {
		return known, nil
	}
	wanted := inuse.RecordOf(touched)
	err := r.runtime.client.Patch(ctx, touched,
		client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	if err != nil {
		return known, err
	}
	return wanted, nil
}
