// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/compound"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// followedIn is how long the kind of parts may take to be followed, as after a start of the provider, before a compound instance
// whose status is of its spec tells of it.
const followedIn = time.Minute

// compound reconciles a compound instance. It has no placement: its part has, which is an instance of another kind (package
// compound). Its status is made of the part's, which wakes it.
func (r *reconciler) compound(ctx context.Context, req request, live convertedObject, status sandbarv1alpha1.InstanceStatus) (reconcile.Result, error) {
	owner := placement.Owner{Cluster: req.Cluster, UID: live.object.GetUID()}
	s := scope.New(r.kind, r.settings(), live.object, status, placement.Placed{Owner: owner, Object: req.NamespacedName}).Converted(live.from)
	r.capacity.never(owner)
	if s.Object().GetDeletionTimestamp() != nil {
		return r.dissolve(ctx, req, s)
	}
	decision, err := r.endOf(s)
	if err != nil {
		return reconcile.Result{}, err
	}
	if decision.Deleted != "" {
		return r.expire(ctx, req, s, outcome.Plan{Decision: decision, Decided: true, Looked: r.clock().Now()})
	}
	again := decision.Again(r.now())
	again.RequeueAfter = outcome.Sooner(again.RequeueAfter, live.again)
	look := r.lookAt(s)
	look.Suspended = decision.Suspended
	if look.Unseen = r.awaited(s); look.Unseen {
		if left := r.untold(s); left > 0 {
			again.RequeueAfter = outcome.Sooner(again.RequeueAfter, left)
			return again, nil
		}
		look.Verdict = compound.NotFollowed(look.Kind)
		return again, r.rollUp(ctx, req, s, look)
	}
	if s, err = r.held(ctx, req, s); err != nil {
		return reconcile.Result{}, ignoreGone(err)
	}
	look.Object = s.Object()
	if look.Applied, err = r.applyPart(ctx, req, s, decision); look.Reason == "" {
		return reconcile.Result{}, err // of one that was told of before nothing else is known
	}
	again.RequeueAfter = outcome.Sooner(again.RequeueAfter, look.Waits)
	if err = errors.Join(r.rollUp(ctx, req, s, look), err); err != nil {
		return reconcile.Result{}, err
	}
	return again, nil
}

// awaited reports whether the kind of the part is offered, and not followed yet. Kinds.partsFollowed wakes the instance.
func (r *reconciler) awaited(s *scope.Scope) bool {
	_, followed := r.parts(s.Settings().Compound.Fields.Template)
	return s.Settings().Compound.Offered() && !followed
}

// untold is for how long the status of a compound instance stays as it is while nobody follows its part; zero means that it is
// told. Else each start of the provider would say of each instance that it is not Ready.
func (r *reconciler) untold(s *scope.Scope) time.Duration {
	if s.Status().Phase == "" || s.Status().ObservedGeneration != s.Object().GetGeneration() {
		return 0
	}
	return min(max(0, s.Settings().Since.Add(followedIn).Sub(r.now())), followedIn)
}

// lookAt begins a look at a compound instance.
func (r *reconciler) lookAt(s *scope.Scope) compound.Look {
	look := compound.LookAt(s.Object(), s.Status(), s.Settings().Compound, r.now())
	look.DataPlane = outcome.DataPlaneOf(s, contract.OfParts(s.DataPlane()), s.Components())
	return look
}

// held is the scope of a compound instance with the finalizer, which it has before anything is made, so that none of that
// outlasts it.
func (r *reconciler) held(ctx context.Context, req request, s *scope.Scope) (*scope.Scope, error) {
	if controllerutil.ContainsFinalizer(s.Object(), placement.Finalizer) {
		return s, nil
	}
	obj, err := r.addFinalizer(ctx, req, s.Object())
	if err != nil {
		return nil, err
	}
	return s.Protected(obj, ""), nil
}

// endOf decides whether a compound instance is to have pods, and whether it is to be deleted. That is a matter of the time
// alone: the use of its part is not seen, and what would count on it is refused.
func (r *reconciler) endOf(s *scope.Scope) (lifecycle.Decision, error) {
	terms, err := lifecycle.TermsOf(s.Object())
	if err != nil {
		return lifecycle.Decision{}, err //nolint:wrapcheck // it says which field cannot be read
	}
	terms.SleepAfterUnused, terms.DeleteAfterUnused = nil, nil
	return lifecycle.Decide(terms, lifecycle.Use{}, r.now()), nil
}

// applyPart makes the part of a compound instance. Without a reason in its verdict there is nothing new to tell.
func (r *reconciler) applyPart(ctx context.Context, req request, s *scope.Scope, decision lifecycle.Decision) (compound.Applied, error) {
	words := s.Settings().Compound
	parts, followed := r.parts(words.Fields.Template)
	switch {
	case !words.Offered():
		return compound.Applied{Verdict: compound.NotOffered(words.Fields.Template)}, nil
	case !followed:
		return compound.Applied{}, errChanged // since awaited was asked
	}
	plan := compound.PlanFor(s.Object(), words, decision.Suspended != "")
	id, err := plan.ID()
	if err != nil {
		return compound.Applied{}, err //nolint:wrapcheck // it says what it is about
	}
	applied, err := compound.Apply(ctx, parts, req, s.Object(), plan, r.corrections.wait(s.Object(), id, r.now()))
	switch {
	case applied.Corrected:
		r.corrections.note(s.Object(), id, r.now())
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return compound.Applied{}, fmt.Errorf("%w: %w", errChanged, err)
	case err != nil && applied.Reason == "" && s.Status().Phase == "":
		applied.Verdict = compound.Unwritten(words.Part.GVK.Kind)
	}
	return applied, err //nolint:wrapcheck // it says what it is about
}

// rollUp writes the status of a compound instance.
func (r *reconciler) rollUp(ctx context.Context, req request, s *scope.Scope, look compound.Look) error {
	rolled, err := compound.RollUp(look)
	if err != nil {
		return err //nolint:wrapcheck // it says what it is about
	}
	return r.writeStatus(ctx, req, s, outcome.Outcome{}, s.Status(), rolled)
}

// dissolve deletes the part of a compound instance that is being deleted, waits until it is gone, and lets the instance go. kcp's
// garbage collector would delete the part as well, at some time after the instance: nobody would be told what is left.
func (r *reconciler) dissolve(ctx context.Context, req request, s *scope.Scope) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(s.Object(), placement.Finalizer) {
		return reconcile.Result{}, nil
	}
	look := r.lookAt(s)
	look.Suspended, _ = outcome.Outcome{}.Intent(s)
	parts, followed := r.parts(s.Settings().Compound.Fields.Template)
	switch offered := s.Settings().Compound.Offered(); {
	case offered && !followed:
		look.Unseen, look.Deleting = true, compound.NotFollowed(look.Kind).Message
		return reconcile.Result{RequeueAfter: recheck}, r.rollUp(ctx, req, s, look)
	case offered:
		var err error
		if look.Part, err = compound.Remove(ctx, parts, req, s.Object()); err != nil {
			return reconcile.Result{}, ignoreGone(err)
		}
	}
	if look.Part == nil {
		return reconcile.Result{}, ignoreGone(r.removeFinalizer(ctx, req, s.Object()))
	}
	look.Deleting = fmt.Sprintf("waiting for %s %s to be removed", look.Kind, look.Part.GetName())
	if status, err := outcome.ReadStatus(look.Part); err == nil {
		if c := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstancePlaced); c != nil && c.Reason == outcome.ReasonDeleting {
			look.Deleting += ": " + c.Message
		}
	}
	return reconcile.Result{RequeueAfter: recheck}, r.rollUp(ctx, req, s, look)
}
