// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// develop renders the DevSession of a component that is not refused beside its copy, if it has one. size is that of all copies, and then with the
// session's. A session that is refused, or has no room, stays as it was rendered last: its own controller says why.
func (r *reconciler) develop(s *scope.Scope, one *outcome.Copy, sessions map[string]devsession.Record, size *int) error {
	record, ok := sessions[one.Name]
	if !ok || record.Stage == devsession.Gone {
		return nil
	}
	rendered, err := devsession.Render(devsession.Input{
		Record: record, Component: one.Name, Copy: one.Rendered, RunnerImage: place.RunnerImage(s),
	})
	if rendered == nil {
		return unlessRefused(err)
	}
	bytes, err := place.CopyBytes(rendered)
	if err != nil {
		return err //nolint:wrapcheck // it says what it is about
	}
	if *size+bytes <= clone.MaxCopiesBytes {
		*size += bytes
		one.Session = rendered
	}
	return nil
}

// unlessRefused is an error that is not about the spec of a session.
func unlessRefused(err error) error {
	var refused *devsession.RefusedError
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// withSessions adds to copies of which none could be made what is known of DevSessions: one that ends has to give the copy its
// requests back also while the Baseline is withdrawn.
func (r *reconciler) withSessions(ctx context.Context, s *scope.Scope, made *outcome.Copies) *outcome.Copies {
	kept, err := r.runtime.frozen.Read(ctx, s.Placement().Namespace())
	switch {
	case err != nil:
		return &outcome.Copies{Err: err}
	case kept != nil:
		made.Sessions, made.SessionsKnown = kept.Sessions, true
	}
	return made
}

// tellSessions has the DevSessions looked at that a look at their group was about: their pods may have changed.
func (r *reconciler) tellSessions(req request, made *outcome.Copies) {
	if made == nil || len(made.Sessions) == 0 || r.developed == nil {
		return
	}
	for _, component := range slices.Sorted(maps.Keys(made.Sessions)) {
		session := req
		session.Name = made.Sessions[component].Name
		r.developed(req, session)
	}
}
