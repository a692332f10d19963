// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/compound"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// partKind is a kind of which compound instances have parts.
type partKind struct {
	// objects are those of the kind; nil while nobody follows them.
	objects compound.Parts
	// offered: tenants have the kind, or are to have it.
	offered bool
}

// awaited reports whether the kind is offered, and not followed yet.
func (k partKind) awaited() bool { return k.offered && k.objects == nil }

// copiesOf is the kind of the part with the copies. Kinds.partsFollowed wakes the instance when it is followed.
func (r *reconciler) copiesOf(s *scope.Scope) partKind {
	words := s.Settings().Compound
	kind := partKind{offered: words.Offered()}
	if objects, followed := r.parts(words.Fields.Template); followed && kind.offered {
		kind.objects = objects
	}
	return kind
}

// routesOf is the kind of the part that leads requests to the copies.
func (r *reconciler) routesOf(s *scope.Scope) partKind {
	words := s.Settings().Compound
	kind := partKind{offered: words.Route.Resource != ""}
	if !kind.offered {
		return kind
	}
	if objects, followed := r.builtIn(words.Route.GVK.Kind); followed {
		kind.objects = objects
	}
	return kind
}

// mayHaveRoute reports whether a compound instance is to have a route, or may have one of before: of one that was made a moment ago
// the status, or the watch, tells. Of all other instances nobody asks kcp for a route.
func (r *reconciler) mayHaveRoute(req request, s *scope.Scope, kind partKind) bool {
	return kind.offered && (s.Settings().Compound.RoutingOf(s.Object()) != nil || compound.TellsOfRoute(s.Object()) || kind.objects != nil && kind.objects.Known(req))
}

// applyCopies makes the part with the copies. Without a reason in its verdict there is nothing new to tell.
func (r *reconciler) applyCopies(ctx context.Context, req request, s *scope.Scope, kind partKind, decision lifecycle.Decision) (compound.Applied, error) {
	words := s.Settings().Compound
	if !kind.offered {
		return compound.Applied{Verdict: compound.NotOffered(words.Fields.Template)}, nil
	}
	return r.applyPart(ctx, req, s, kind, compound.PlanCopies(s.Object(), words, decision.Suspended != ""))
}

// applyRoute makes the part that leads requests to the copies, or ends it. What is wrong with it keeps nobody from the copies.
func (r *reconciler) applyRoute(ctx context.Context, req request, s *scope.Scope, kind partKind, piece *compound.Piece) (err error) {
	switch {
	case !r.mayHaveRoute(req, s, kind):
		return nil
	case kind.awaited():
		piece.Unseen, piece.Verdict, piece.Waits = true, compound.NotFollowed(piece.Kind), recheck
		return nil
	}
	piece.Applied, err = r.applyPart(ctx, req, s, kind, compound.PlanRoute(s.Object(), s.Settings().Compound))
	piece.Unseen = piece.Reason == ""
	return err
}

// applyPart makes one part of a compound instance as its plan says. Without a reason in its verdict there is nothing new to tell.
func (r *reconciler) applyPart(ctx context.Context, req request, s *scope.Scope, kind partKind, plan compound.Plan) (compound.Applied, error) {
	id, err := plan.ID()
	if err != nil {
		return compound.Applied{}, err //nolint:wrapcheck // it says what it is about
	}
	applied, err := compound.Apply(ctx, kind.objects, req, s.Object(), plan, r.corrections.wait(s.Object(), plan.Kind, id, r.now()))
	switch {
	case applied.Corrected:
		r.corrections.note(s.Object(), plan.Kind, id, r.now())
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return compound.Applied{}, fmt.Errorf("%w: %w", errChanged, err)
	case err != nil && applied.Reason == "" && s.Status().Phase == "":
		applied.Verdict = compound.Unwritten(plan.Kind)
	}
	return applied, err //nolint:wrapcheck // it says what it is about
}
