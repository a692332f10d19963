// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxclaim

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/idempotency"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Of the claims of a namespace that have one idempotency key, one is the first: it makes the Sandboxes, and the others
// say in status.sameAs that they have the same. Which one it is, is decided once for each claim, before it makes
// anything, and is in its status from then on:
//
//   - a claim that was decided to be a first stays one;
//   - of those that are not decided yet, the oldest is decided before the others;
//   - a claim that is older by a day, or is being deleted, does not count.
//
// The label that finds a claim by its key is written with its finalizer, and so before it is decided. One lock for
// each key keeps two workers of this process from deciding without each other. Of two processes that both believe to
// lead, each may decide for another first, if both claims were created in the same second: kcp keeps no more of the time.

// keyLocks are locks for keys; several keys share one.
type keyLocks struct {
	locks [64]sync.Mutex
}

var keySeed = maphash.MakeSeed()

func (k *keyLocks) of(key export.Key, text string) *sync.Mutex {
	return &k.locks[maphash.Comparable(keySeed, [3]string{key.Cluster, key.Namespace, text})%uint64(len(k.locks))]
}

// needsSettling reports whether it is to be decided whose Sandboxes a claim has.
func needsSettling(claim *sandbarv1alpha1.SandboxClaim) bool {
	_, has := claim.Annotations[placement.AnnotationIdempotencyKey]
	return has && claim.Status.Phase == ""
}

// refusedByKey reports whether a claim has failed because of its idempotency key alone.
func refusedByKey(status *sandbarv1alpha1.SandboxClaimStatus) bool {
	c := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.ClaimClaimedCondition)
	return c != nil && (c.Reason == reasonKeyInvalid || c.Reason == reasonKeyReused)
}

// settle decides whose Sandboxes a claim has, and writes it down. Nothing is settled while an older claim with the key
// is not decided; then again says when to ask next.
func (r *reconciler) settle(ctx context.Context, key export.Key, claim *sandbarv1alpha1.SandboxClaim) (settled bool, again time.Duration, err error) {
	text := claim.Annotations[placement.AnnotationIdempotencyKey]
	lock := r.keys.of(key, text)
	lock.Lock()
	defer lock.Unlock()
	if err := idempotency.Check(text); err != nil {
		return true, 0, r.refuse(ctx, key, claim, reasonKeyInvalid, fmt.Sprintf("the annotation %s: %v; create the claim again with such a key", placement.AnnotationIdempotencyKey, err))
	}
	others, err := r.withKey(ctx, key, claim, text)
	if err != nil {
		return false, 0, err
	}
	first, wait := firstOf(claim, others)
	status := claim.Status.DeepCopy()
	status.ObservedGeneration, status.Phase = claim.Generation, sandbarv1alpha1.ClaimClaiming
	switch {
	case wait:
		return false, r.waits(claim), nil
	case first == nil:
		keysTotal.WithLabelValues("first").Inc()
	case !sameRequest(&first.Spec, &claim.Spec):
		return true, 0, r.refuse(ctx, key, claim, reasonKeyReused, fmt.Sprintf(
			"SandboxClaim %s was created at %s with the same idempotency key and asks for something else; use another key for another request, or create the claim with the spec of that one",
			first.Name, first.CreationTimestamp.UTC().Format(time.RFC3339)))
	default:
		keysTotal.WithLabelValues("same").Inc()
		status.SameAs = &sandbarv1alpha1.SandboxClaimReference{Name: first.Name, UID: string(first.UID)}
	}
	return true, 0, r.report(ctx, key, claim, status)
}

// waits is after how long to ask again whether an older claim is decided: ever more rarely. The attack: a claim as large
// as an object may be, whose status kcp does not take any more, is never decided, and as many others with its key as the
// workspace has would each list all of them ten times a second.
func (r *reconciler) waits(claim *sandbarv1alpha1.SandboxClaim) time.Duration {
	return max(changedAgain, r.now().Sub(claim.CreationTimestamp.Time)/8)
}

// refuse writes that a claim has failed because of its idempotency key.
func (r *reconciler) refuse(ctx context.Context, key export.Key, claim *sandbarv1alpha1.SandboxClaim, reason, message string) error {
	keysTotal.WithLabelValues("refused").Inc()
	status := claim.Status.DeepCopy()
	status.ObservedGeneration, status.Phase = claim.Generation, sandbarv1alpha1.ClaimFailed
	status.CompletionTime = new(metav1.NewTime(r.now().Truncate(time.Second)))
	for _, c := range []metav1.Condition{
		condition(sandbarv1alpha1.ClaimClaimedCondition, false, reason, "%s", message),
		condition(sandbarv1alpha1.ClaimReadyCondition, false, reason, "the claim has no Sandboxes: %s", message),
		condition(sandbarv1alpha1.ClaimTimedOutCondition, false, reasonNothing, "the claim was refused before it made a Sandbox"),
	} {
		c.ObservedGeneration, c.LastTransitionTime = claim.Generation, metav1.NewTime(r.now())
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return r.report(ctx, key, claim, status)
}

// withKey lists the other claims of the namespace that have the key and count for the claim.
func (r *reconciler) withKey(ctx context.Context, key export.Key, claim *sandbarv1alpha1.SandboxClaim, text string) ([]*sandbarv1alpha1.SandboxClaim, error) {
	list, err := r.objects.List(ctx, key.Cluster, key.Namespace, placement.LabelIdempotencyKey+"="+idempotency.Hash(text))
	if err != nil {
		return nil, fmt.Errorf("listing the SandboxClaims with the idempotency key of %s: %w", key.Name, err)
	}
	var others []*sandbarv1alpha1.SandboxClaim
	since := claim.CreationTimestamp.Add(-idempotency.Window)
	for i := range list {
		other, err := claimOf(&list[i])
		if err != nil {
			return nil, err
		}
		if other.UID == claim.UID || other.DeletionTimestamp != nil || other.Annotations[placement.AnnotationIdempotencyKey] != text || !other.CreationTimestamp.After(since) {
			continue
		}
		others = append(others, other)
	}
	return others, nil
}

// firstOf returns the claim whose Sandboxes a claim has, nil for its own; wait is set while another one is to be decided
// before it.
func firstOf(claim *sandbarv1alpha1.SandboxClaim, others []*sandbarv1alpha1.SandboxClaim) (first *sandbarv1alpha1.SandboxClaim, wait bool) {
	slices.SortFunc(others, older)
	for _, other := range others {
		if other.Status.Phase != "" && other.Status.SameAs == nil && !refusedByKey(&other.Status) {
			return other, false
		}
	}
	return nil, slices.ContainsFunc(others, func(other *sandbarv1alpha1.SandboxClaim) bool {
		return other.Status.Phase == "" && older(other, claim) < 0
	})
}

func older(a, b *sandbarv1alpha1.SandboxClaim) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}

// sameRequest reports whether two claims ask for the same. Fields that may change do not count.
func sameRequest(a, b *sandbarv1alpha1.SandboxClaimSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, spec := range []*sandbarv1alpha1.SandboxClaimSpec{a, b} {
		spec.OnDelete, spec.TTLAfterFinished = "", ""
	}
	return equality.Semantic.DeepEqual(a, b)
}

// mirror reports what the first claim with the key says of its Sandboxes.
func (r *reconciler) mirror(ctx context.Context, key export.Key, obj *unstructured.Unstructured, claim *sandbarv1alpha1.SandboxClaim) (reconcile.Result, error) {
	its := key
	its.Name = claim.Status.SameAs.Name
	r.sameAs.Set(key, its) // before it is read, so that no change of it is missed
	first, err := r.first(ctx, its, claim.Status.SameAs.UID)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.report(ctx, key, claim, mirrored(claim, first, r.now())); err != nil {
		return reconcile.Result{}, err
	}
	if claim.Status.Phase != sandbarv1alpha1.ClaimFailed {
		return reconcile.Result{}, nil
	}
	over, left := expiry(claim, r.now())
	if over {
		return reconcile.Result{}, r.expire(ctx, key, obj)
	}
	return reconcile.Result{RequeueAfter: left}, nil
}

// first reads the claim that another one has the Sandboxes of; nil if it is gone.
func (r *reconciler) first(ctx context.Context, key export.Key, uid string) (*sandbarv1alpha1.SandboxClaim, error) {
	obj, err := r.objects.Live(ctx, key)
	switch {
	case export.IsGone(err), err == nil && string(obj.GetUID()) != uid:
		return nil, nil //nolint:nilnil // it is gone
	case err != nil:
		return nil, fmt.Errorf("reading SandboxClaim %s, which has the same idempotency key: %w", key.Name, err)
	}
	return claimOf(obj)
}

// mirrored is what to say of a claim that has the Sandboxes of the first one with its key, which may be gone.
func mirrored(claim, first *sandbarv1alpha1.SandboxClaim, now time.Time) *sandbarv1alpha1.SandboxClaimStatus {
	status := claim.Status.DeepCopy()
	status.ObservedGeneration = claim.Generation
	name := claim.Status.SameAs.Name
	says := func(c metav1.Condition) {
		c.ObservedGeneration, c.LastTransitionTime = claim.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	if first == nil {
		status.Sandboxes, status.ClaimedReplicas, status.ReadyReplicas = nil, 0, 0
		says(condition(sandbarv1alpha1.ClaimClaimedCondition, false, reasonGone,
			"SandboxClaim %s, whose Sandboxes these were, is gone; create a claim with another idempotency key for others", name))
		says(condition(sandbarv1alpha1.ClaimReadyCondition, false, reasonNotReady, "SandboxClaim %s, whose Sandboxes these were, is gone", name))
		if status.Phase == sandbarv1alpha1.ClaimClaiming {
			status.Phase = sandbarv1alpha1.ClaimFailed
			says(condition(sandbarv1alpha1.ClaimTimedOutCondition, false, reasonNothing, "SandboxClaim %s was deleted before its Sandboxes were Ready", name))
		}
	} else {
		its := first.Status.DeepCopy()
		if its.Phase != "" {
			status.Phase = its.Phase
		}
		status.Sandboxes, status.ClaimedReplicas, status.ReadyReplicas = its.Sandboxes, its.ClaimedReplicas, its.ReadyReplicas
		for _, c := range its.Conditions {
			if c.Type == sandbarv1alpha1.ClaimClaimedCondition {
				c = condition(c.Type, c.Status == metav1.ConditionTrue, c.Reason, "%s; they are those of SandboxClaim %s, which was created first with this idempotency key", c.Message, name)
			}
			says(c)
		}
	}
	if status.Phase != sandbarv1alpha1.ClaimClaiming && status.CompletionTime == nil {
		status.CompletionTime = new(metav1.NewTime(now.Truncate(time.Second)))
	}
	return status
}

// wakeThoseThatAre has the claims looked at that have the Sandboxes of this one.
func (r *reconciler) wakeThoseThatAre(key export.Key) {
	for _, same := range r.sameAs.To(key) {
		r.wake(same)
	}
}
