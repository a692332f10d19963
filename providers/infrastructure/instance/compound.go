// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// compound reconciles a compound instance. It has no placement: the part with the copies has one, which is an instance of another
// kind (package compound). Its status is made of those of its parts, which wake it.
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
	copies, routes := r.copiesOf(s), r.routesOf(s)
	if left := r.untold(s); left > 0 && (copies.awaited() || routes.awaited() && r.mayHaveRoute(req, s, routes)) {
		again.RequeueAfter = outcome.Sooner(again.RequeueAfter, left)
		return again, nil
	}
	if copies.awaited() {
		look.Copies.Unseen, look.Copies.Verdict = true, compound.NotFollowed(look.Copies.Kind)
		look.Route.Unseen = r.mayHaveRoute(req, s, routes)
		return again, r.rollUp(ctx, req, s, look)
	}
	if s, err = r.held(ctx, req, s); err != nil {
		return reconcile.Result{}, ignoreGone(err)
	}
	look.Object = s.Object()
	if look.Copies.Applied, err = r.applyCopies(ctx, req, s, copies, decision); look.Copies.Reason == "" {
		return reconcile.Result{}, err // of one that was told of before nothing else is known
	}
	errRoute := r.applyRoute(ctx, req, s, routes, &look.Route)
	if errors.Is(errRoute, errChanged) {
		return reconcile.Result{}, errRoute
	}
	for _, waits := range []time.Duration{look.Copies.Waits, look.Route.Waits} {
		again.RequeueAfter = outcome.Sooner(again.RequeueAfter, waits)
	}
	if err = errors.Join(r.rollUp(ctx, req, s, look), err, errRoute); err != nil {
		return reconcile.Result{}, err
	}
	return again, nil
}

// untold is for how long the status of a compound instance stays as it is while nobody follows its parts; zero means that it is
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

// rollUp writes the status of a compound instance.
func (r *reconciler) rollUp(ctx context.Context, req request, s *scope.Scope, look compound.Look) error {
	rolled, err := compound.RollUp(look)
	if err != nil {
		return err //nolint:wrapcheck // it says what it is about
	}
	return r.writeStatus(ctx, req, s, outcome.Outcome{}, s.Status(), rolled)
}

// dissolve deletes the parts of a compound instance that is being deleted, waits until they are gone, and lets the instance go: the
// route first, so that no request is led to copies that go. kcp's garbage collector would delete the parts as well, at some time
// after the instance: nobody would be told what is left.
func (r *reconciler) dissolve(ctx context.Context, req request, s *scope.Scope) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(s.Object(), placement.Finalizer) {
		return reconcile.Result{}, nil
	}
	look := r.lookAt(s)
	look.Suspended, _ = outcome.Outcome{}.Intent(s)
	copies, routes := r.copiesOf(s), r.routesOf(s)
	if r.mayHaveRoute(req, s, routes) {
		look.Copies.Unseen = true // it is looked at when the route is gone
		if there, err := r.end(ctx, req, s, routes, &look, &look.Route); there || err != nil {
			return r.dissolving(ctx, req, s, look, err)
		}
		look.Copies.Unseen = false
	}
	if there, err := r.end(ctx, req, s, copies, &look, &look.Copies); there || err != nil {
		return r.dissolving(ctx, req, s, look, err)
	}
	return reconcile.Result{}, ignoreGone(r.removeFinalizer(ctx, req, s.Object()))
}

// end deletes one part, and reports whether it is there still, or may be. The look says then what the deletion waits for.
func (r *reconciler) end(ctx context.Context, req request, s *scope.Scope, kind partKind, look *compound.Look, piece *compound.Piece) (there bool, err error) {
	switch {
	case kind.awaited():
		piece.Unseen, look.Deleting = true, compound.NotFollowed(piece.Kind).Message
		return true, nil
	case !kind.offered:
		return false, nil
	}
	if piece.Part, err = compound.Remove(ctx, kind.objects, req, s.Object()); piece.Part == nil || err != nil {
		return false, err //nolint:wrapcheck // it says what it is about
	}
	look.Deleting = fmt.Sprintf("waiting for %s %s to be removed", piece.Kind, piece.Part.GetName())
	if status, err := outcome.ReadStatus(piece.Part); err == nil {
		if c := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstancePlaced); c != nil && c.Reason == outcome.ReasonDeleting {
			look.Deleting += ": " + c.Message
		}
	}
	return true, nil
}

// dissolving tells what a deletion waits for, and looks again: of the end of a part no watch may tell.
func (r *reconciler) dissolving(ctx context.Context, req request, s *scope.Scope, look compound.Look, err error) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, ignoreGone(err)
	}
	return reconcile.Result{RequeueAfter: recheck}, r.rollUp(ctx, req, s, look)
}
