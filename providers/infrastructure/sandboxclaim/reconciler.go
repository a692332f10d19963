// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxclaim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/idempotency"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
)

const (
	// finalizer has the deletion of a claim wait until its Sandboxes are deleted, or released.
	finalizer = "sandbar.dev/claim"
	// atOnce is how many Sandboxes of a claim are created, or deleted, at the same time.
	atOnce = 8
	// lookAgain is how soon a claim is looked at again for what no event tells of: a name that somebody else has, and
	// a kind that the provider does not offer yet.
	lookAgain = 5 * time.Second
	// changedAgain is when to look again at a claim, or at a Sandbox, that somebody has changed meanwhile.
	changedAgain = 100 * time.Millisecond
)

// objects reads and writes SandboxClaims; *export.Objects does it in kcp.
type objects interface {
	Live(ctx context.Context, key export.Key) (*unstructured.Unstructured, error)
	List(ctx context.Context, cluster, namespace, selector string) ([]unstructured.Unstructured, error)
	Patch(ctx context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error)
	Remove(ctx context.Context, key export.Key, read *unstructured.Unstructured) error
}

// reconciler makes the Sandboxes of claims. Of claims it keeps nothing: what it did is what there is.
type reconciler struct {
	objects   objects
	sandboxes sandboxes
	// wake has another claim looked at.
	wake func(export.Key)
	now  func() time.Time
	// keys decide which of several claims with one idempotency key is the first, one at a time.
	keys keyLocks
	// sameAs has the claims that have the Sandboxes of another one, so that they follow it.
	sameAs export.References
}

func newReconciler(objects objects, sandboxes sandboxes, wake func(export.Key)) *reconciler {
	return &reconciler{objects: objects, sandboxes: sandboxes, wake: wake, now: time.Now}
}

// Reconcile looks at one claim.
func (r *reconciler) Reconcile(ctx context.Context, key export.Key) (reconcile.Result, error) {
	result, err := r.reconcile(ctx, key)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: changedAgain}, nil
	case errors.Is(err, instance.ErrNoKind):
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	}
	return result, err
}

func (r *reconciler) reconcile(ctx context.Context, key export.Key) (reconcile.Result, error) {
	obj, err := r.objects.Live(ctx, key)
	if export.IsGone(err) {
		r.sameAs.Drop(key)
		r.wakeThoseThatAre(key)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading SandboxClaim %s: %w", key.Name, err)
	}
	claim, err := claimOf(obj)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch has := slices.Contains(claim.Finalizers, finalizer); {
	case claim.DeletionTimestamp != nil && !has:
		return reconcile.Result{}, nil
	case claim.DeletionTimestamp == nil && !has:
		// Before anything is made: what is made must not outlast the claim unseen. Its event brings the next look.
		return reconcile.Result{}, r.writeFinalizers(ctx, key, claim, append(slices.Clone(claim.Finalizers), finalizer))
	case claim.DeletionTimestamp == nil && needsSettling(claim):
		if settled, again, err := r.settle(ctx, key, claim); !settled || err != nil {
			return reconcile.Result{RequeueAfter: again}, err
		}
	}
	if claim.DeletionTimestamp == nil && claim.Status.SameAs != nil {
		return r.mirror(ctx, key, obj, claim)
	}
	own, err := r.owned(ctx, key, claim)
	if errors.Is(err, instance.ErrNoKind) && claim.DeletionTimestamp != nil && len(claim.Status.Sandboxes) == 0 {
		err = nil // it has none, and the kind may never come back
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if claim.DeletionTimestamp != nil {
		return r.finalize(ctx, key, claim, own)
	}
	return r.converge(ctx, key, obj, claim, own)
}

func claimOf(obj *unstructured.Unstructured) (*sandbarv1alpha1.SandboxClaim, error) {
	claim := &sandbarv1alpha1.SandboxClaim{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, claim); err != nil {
		return nil, fmt.Errorf("reading SandboxClaim %s: %w", obj.GetName(), err)
	}
	return claim, nil
}

// converge creates and deletes Sandboxes, and reports.
func (r *reconciler) converge(ctx context.Context, key export.Key, obj *unstructured.Unstructured, claim *sandbarv1alpha1.SandboxClaim, own []unstructured.Unstructured) (reconcile.Result, error) {
	f := found{now: r.now()}
	for i := range own {
		s, err := sandboxOf(&own[i])
		if err != nil {
			return reconcile.Result{}, err
		}
		f.own = append(f.own, s)
	}
	slices.SortFunc(f.own, byName)
	p := planFor(claim, f)
	if p.expire {
		return reconcile.Result{}, r.expire(ctx, key, obj)
	}
	var err error
	if f.taken, err = r.createAll(ctx, key, claim, p.create); err != nil {
		return reconcile.Result{}, err
	}
	// What is decided is written before anything is deleted by it: after a start in between it must not be decided
	// otherwise.
	if err := r.report(ctx, key, claim, statusFor(claim, f, p)); err != nil {
		return reconcile.Result{}, err
	}
	if len(f.taken) > 0 {
		p.again = min(p.again, lookAgain)
	}
	return reconcile.Result{RequeueAfter: p.again}, r.removeAll(ctx, key, p.remove, own)
}

// expire deletes a claim that has failed and whose time is over.
func (r *reconciler) expire(ctx context.Context, key export.Key, obj *unstructured.Unstructured) error {
	if err := r.objects.Remove(ctx, key, obj); err != nil && !export.IsGone(err) {
		return fmt.Errorf("deleting SandboxClaim %s: %w", key.Name, err)
	}
	return nil
}

// createAll creates Sandboxes. taken are the names that others have.
func (r *reconciler) createAll(ctx context.Context, key export.Key, claim *sandbarv1alpha1.SandboxClaim, names []string) (taken []string, err error) {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range names {
		group.Go(func() error {
			isTaken, err := r.create(ctx, key, claim, name)
			if isTaken {
				mu.Lock()
				defer mu.Unlock()
				taken = append(taken, name)
			}
			return err
		})
	}
	err = group.Wait() // taken is written by then
	slices.Sort(taken)
	return taken, err
}

// removeAll deletes those of the claim's Sandboxes that are to go.
func (r *reconciler) removeAll(ctx context.Context, key export.Key, going []sandbox, own []unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range own {
		if slices.ContainsFunc(going, func(s sandbox) bool { return s.uid == string(own[i].GetUID()) }) {
			group.Go(func() error { return r.remove(ctx, key, &own[i]) })
		}
	}
	return group.Wait()
}

// finalize deletes the Sandboxes of a claim that is being deleted, or releases them, and lets it go.
func (r *reconciler) finalize(ctx context.Context, key export.Key, claim *sandbarv1alpha1.SandboxClaim, own []unstructured.Unstructured) (reconcile.Result, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range own {
		switch {
		case claim.Spec.OnDelete == sandbarv1alpha1.ClaimReleases && own[i].GetDeletionTimestamp() == nil:
			group.Go(func() error { return r.release(groupCtx, key, &own[i]) })
		case own[i].GetDeletionTimestamp() == nil:
			group.Go(func() error { return r.remove(groupCtx, key, &own[i]) })
		}
	}
	if err := group.Wait(); err != nil {
		return reconcile.Result{}, err
	}
	// Their own finalizers wait for their placements.
	return reconcile.Result{}, r.writeFinalizers(ctx, key, claim, slices.DeleteFunc(slices.Clone(claim.Finalizers), func(name string) bool { return name == finalizer }))
}

// writeFinalizers writes the finalizers under the version that was read, since a merge patch replaces the whole list, and
// the label by which other claims with the same idempotency key find this one.
func (r *reconciler) writeFinalizers(ctx context.Context, key export.Key, claim *sandbarv1alpha1.SandboxClaim, finalizers []string) error {
	meta := map[string]any{"resourceVersion": claim.ResourceVersion, "finalizers": finalizers}
	if text, has := claim.Annotations[placement.AnnotationIdempotencyKey]; has {
		meta["labels"] = map[string]any{placement.LabelIdempotencyKey: idempotency.Hash(text)}
	}
	data, err := json.Marshal(map[string]any{"metadata": meta})
	if err == nil {
		_, err = r.objects.Patch(ctx, key, data)
	}
	if err != nil && !export.IsGone(err) {
		return fmt.Errorf("writing the finalizers of SandboxClaim %s: %w", key.Name, err)
	}
	return nil
}

// report writes the status, if it is another one, and keeps what was written.
func (r *reconciler) report(ctx context.Context, key export.Key, claim *sandbarv1alpha1.SandboxClaim, status *sandbarv1alpha1.SandboxClaimStatus) error {
	if equality.Semantic.DeepEqual(*status, claim.Status) {
		return nil
	}
	data, err := export.StatusPatch(claim.Status, status)
	if err == nil {
		_, err = r.objects.Patch(ctx, key, data, "status")
	}
	if err != nil && !export.IsGone(err) {
		return fmt.Errorf("writing the status of SandboxClaim %s: %w", key.Name, err)
	}
	claim.Status = *status
	r.wakeThoseThatAre(key)
	return nil
}
