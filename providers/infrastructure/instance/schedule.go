// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// clock compares the controllers' time with the servers'.
func (r *reconciler) clock() *inuse.Clock { return r.replicas.Clock() }

// schedule decides what the lifecycle makes of the instance now. What would take it from its
// user is decided again on live answers: a cache that is behind does not know of the last use, nor
// of a replica that has come a moment ago.
//
// used is what the cache says of the use, current the kro instance or nil. What the caches alone say
// must not be acted on when the second look fails: there is no decision then.
func (r *reconciler) schedule(ctx context.Context, s *scope.Scope, current *unstructured.Unstructured, used inuse.Record) (outcome.Plan, error) {
	p := outcome.Plan{Used: used}
	t, err := lifecycle.TermsOf(s.Object())
	if err != nil {
		return p, err
	}
	u := lifecycle.Use{Last: used.Used, Lag: used.Lag(s.ActivityInterval())}
	if t.EndsUnused() {
		verdict, err := r.replicas.Recent(ctx)
		if err != nil {
			return p, err
		}
		u.Allowed(verdict)
	}
	if t.SleepAfterUnused != nil {
		u.Resting = lifecycle.RestsAlready(current, t)
	}
	d := lifecycle.Decide(t, u, r.now())
	if falls := d.Rests && !u.Resting; falls || d.Deleted != "" {
		if p, err = r.lookAgain(ctx, s, p); err != nil {
			return p, err
		}
		verdict, err := r.replicas.Look(ctx)
		if err != nil {
			return p, err
		}
		u.Last, u.Lag = p.Used.Used, p.Used.Lag(s.ActivityInterval())
		u.Allowed(verdict)
		d = lifecycle.Decide(t, u, r.now())
	}
	p.Decision, p.Decided, p.WasResting = d, true, u.Resting
	return p, nil
}

// lookAgain asks the runtime cluster itself when the instance was last used, and returns the plan with
// the answer.
func (r *reconciler) lookAgain(ctx context.Context, s *scope.Scope, p outcome.Plan) (outcome.Plan, error) {
	lease, looked := &coordinationv1.Lease{}, r.clock().Now()
	key := types.NamespacedName{Namespace: s.Placement().Namespace(), Name: placement.ActivityLease}
	if err := r.runtime.live.Get(ctx, key, lease); err != nil {
		return p, fmt.Errorf("asking when the instance was last used: %w", err)
	}
	p.Lease, p.Looked, p.Used = lease, looked, inuse.RecordOf(lease).Since(s.Placement().Adopted.At)
	if p.Used.Used.IsZero() {
		p.Used.Used = r.clock().Later()
	}
	return p, nil
}
