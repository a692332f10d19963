// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// annotationGeneration, on the Lease, is the generation of the tenant's object that was last
	// counted as use. It stands beside the time, so that one write says both.
	annotationGeneration = "sandbar.dev/generation"

	// maxClockSkew is how far in the future a use may lie. Beyond it a clock is wrong, or was: the
	// time is set back to now, or the instance would stay awake until that time comes.
	maxClockSkew = time.Minute

	defaultActivityInterval = time.Minute
)

// activityInterval is how often use is written down at most, and so how much it may lag.
func (s *scope) activityInterval() time.Duration {
	if s.infrastructure == nil || s.infrastructure.Limits == nil || s.infrastructure.Limits.ActivityIntervalSeconds == 0 {
		return defaultActivityInterval
	}
	return time.Duration(s.infrastructure.Limits.ActivityIntervalSeconds) * time.Second
}

// buildLease builds the Lease that says: used now, by this generation of the object.
func buildLease(s *scope, now time.Time) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: s.objectMeta(placement.ActivityLease),
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now}},
	}
	lease.Annotations[annotationGeneration] = strconv.FormatInt(s.object.GetGeneration(), 10)
	return lease
}

// ensureLease makes the Lease that tells when the instance was last used, and counts as use what
// the data plane does not see: that the instance is made, and each change of its spec. So an
// instance that is resumed, or whose lifecycle gets its first or another duration, has that
// duration ahead of it. A Lease that is lost is made anew and says "used now".
func (r *reconciler) ensureLease(ctx context.Context, s *scope) error {
	desired, current := buildLease(s, r.now()), &coordinationv1.Lease{}
	key := client.ObjectKeyFromObject(desired)
	err := r.runtime.client.Get(ctx, key, current)
	if apierrors.IsNotFound(err) {
		err = r.runtime.client.Create(ctx, desired, client.FieldOwner(fieldOwner))
		switch {
		case err == nil:
			s.lastUsed = desired.Spec.RenewTime.Time
			return nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return fmt.Errorf("creating Lease %s: %w", key.Name, errTerminating)
		case !apierrors.IsAlreadyExists(err):
			return fmt.Errorf("creating Lease %s: %w", key.Name, err)
		}
		err = r.runtime.live.Get(ctx, key, current) // the cache lags
	}
	if err != nil {
		return fmt.Errorf("reading Lease %s: %w", key.Name, err)
	}
	touched := current.DeepCopy()
	touched.Labels = labels.Merge(current.Labels, desired.Labels)
	touched.Annotations = labels.Merge(current.Annotations, desired.Annotations)
	if changed := current.Annotations[annotationGeneration] != desired.Annotations[annotationGeneration]; changed || !believable(current, r.now()) {
		touched.Spec.RenewTime = desired.Spec.RenewTime
	}
	s.lastUsed = touched.Spec.RenewTime.Time
	if equality.Semantic.DeepEqual(current, touched) {
		return nil
	}
	if err := r.runtime.client.Patch(ctx, touched, client.MergeFrom(current), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("writing Lease %s: %w", key.Name, err)
	}
	return nil
}

// believable tells whether the Lease holds a time of use that can be.
func believable(lease *coordinationv1.Lease, now time.Time) bool {
	return lease.Spec.RenewTime != nil && lease.Spec.RenewTime.Sub(now) <= maxClockSkew
}

// schedule decides what the lifecycle makes of the instance now. What would take it from its
// user is decided again on live answers: a cache that is behind does not know of the last use.
func (r *reconciler) schedule(ctx context.Context, s *scope) error {
	t, err := termsOf(s.object)
	if err != nil {
		return err
	}
	u := use{last: s.lastUsed, lag: s.activityInterval()}
	if u.possible, err = r.servingSince(ctx, r.runtime.client); err != nil {
		return err
	}
	if t.SleepAfterUnused != nil {
		if u.resting, err = r.resting(ctx, s, t); err != nil {
			return err
		}
	}
	d := decide(t, u, r.now())
	if falls := d.rests && !u.resting; falls || d.deleted != "" {
		if u.last, err = r.lastUsed(ctx, s); err != nil {
			return err
		}
		if u.possible, err = r.servingSince(ctx, r.runtime.live); err != nil {
			return err
		}
		s.lastUsed = u.last
		d = decide(t, u, r.now())
	}
	// Only now: what the caches alone say must not be acted on when the second look fails.
	s.decision, s.decided, s.wasResting = d, true, u.resting
	return nil
}

// lastUsed asks the runtime cluster itself.
func (r *reconciler) lastUsed(ctx context.Context, s *scope) (time.Time, error) {
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: s.id.Namespace(), Name: placement.ActivityLease}
	if err := r.runtime.live.Get(ctx, key, lease); err != nil {
		return time.Time{}, fmt.Errorf("asking when the instance was last used: %w", err)
	}
	if lease.Spec.RenewTime == nil {
		return r.now(), nil
	}
	return lease.Spec.RenewTime.Time, nil
}

// servingSince tells since when requests could reach the instances; zero while none can.
func (r *reconciler) servingSince(ctx context.Context, from client.Reader) (time.Time, error) {
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: placement.SystemNamespace, Name: placement.DataPlaneLease}
	err := from.Get(ctx, key, lease)
	if apierrors.IsNotFound(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("asking whether the data plane serves: %w", err)
	}
	renewed, since := lease.Spec.RenewTime, lease.Spec.AcquireTime
	if renewed == nil || since == nil || r.now().Sub(renewed.Time).Abs() > placement.DataPlaneStale {
		return time.Time{}, nil
	}
	return since.Time, nil
}

// resting tells whether the instance rests for being unused, as the kro instance has it.
func (r *reconciler) resting(ctx context.Context, s *scope, t terms) (bool, error) {
	current := s.newObject()
	key := types.NamespacedName{Namespace: s.id.Namespace(), Name: s.object.GetName()}
	if err := r.runtime.client.Get(ctx, key, current); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if t.MinReplicas == 0 {
		return current.GetAnnotations()[placement.AnnotationSuspension] == string(sandbarv1alpha1.SuspendedUnused), nil
	}
	kept, _ := replicas(current)
	return kept == int64(t.MinReplicas), nil
}

// again says when to look at the instance again if nothing happens to it. The queue holds one
// time per instance, the earliest: an instance in use is looked at once per deadline, and one
// without a deadline never.
func (d decision) again(now time.Time) reconcile.Result {
	if d.next.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: max(d.next.Sub(now), time.Millisecond)}
}

// expire deletes the tenant's object at the end of its lifetime, after a last look at kcp: the
// cache may not know yet of a renewal. A change after that look makes kcp refuse the deletion.
func (r *reconciler) expire(ctx context.Context, req request, s *scope) (reconcile.Result, error) {
	live, err := r.tenants.live(ctx, req)
	if err != nil {
		return reconcile.Result{}, ignoreGone(fmt.Errorf("confirming the instance: %w", err))
	}
	if live.GetUID() != s.object.GetUID() || live.GetGeneration() != s.object.GetGeneration() || live.GetDeletionTimestamp() != nil {
		// Its event is on the way; look again should it be lost.
		return reconcile.Result{RequeueAfter: recheck}, nil
	}
	log.FromContext(ctx).Info("deleting an instance at the end of its lifetime", "cause", s.decision.deleted, "lastUsed", s.lastUsed)
	err = r.tenants.remove(ctx, req, live)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: recheck}, nil
	}
	if err != nil {
		return reconcile.Result{}, ignoreGone(fmt.Errorf("deleting the instance: %w", err))
	}
	countLifecycle(s)
	r.teller.tell(ctx, req, s, string(s.decision.deleted), deletionMessages[s.decision.deleted], r.now())
	return reconcile.Result{}, nil
}
