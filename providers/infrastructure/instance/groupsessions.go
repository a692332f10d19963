// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/frozen"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

// GroupWork is what the controller of DevSessions reads of a group, and how it writes what it notes there.
type GroupWork struct {
	GroupPlace

	// GVK is the kind of the group.
	GVK schema.GroupVersionKind
	// Copies are what the runtime cluster has been given of each component, by its name.
	Copies map[string]*clone.Rendered
	// Made are the DevSessions of which the runtime cluster has been given anything.
	Made map[types.UID]bool
	// Kept is what the placement keeps. Its Sessions may be changed, and then be written.
	Kept *frozen.Frozen
	// Write keeps what has been changed in Kept, and has the group looked at. The error is frozen.ErrChanged if somebody else has
	// written since it was read.
	Write func(ctx context.Context, kept *frozen.Frozen) error
	// RunnerImage has the runner, and DataPlaneURL is where the data plane is; each is empty if the operator has none.
	RunnerImage, DataPlaneURL string
	// Rests: the group is to have no pods now.
	Rests bool
}

// TellSessions has a function told of each DevSession of a group after a look at the group. It is to be called before Register.
func (g *Groups) TellSessions(sessions func(group, session export.Key)) { g.sessions = sessions }

// developed tells of a DevSession.
func (g *Groups) developed(group, session export.Key) {
	if g.sessions != nil {
		g.sessions(group, session)
	}
}

// Work reads a group for its DevSessions. Errors are those of Place.
func (g *Groups) Work(ctx context.Context, key export.Key) (*GroupWork, error) {
	r := g.runner()
	if r == nil || r.Controller == nil {
		return nil, ErrNoKind
	}
	work, err := r.instances.groupWork(ctx, key)
	if err != nil {
		return nil, err
	}
	write := work.Write
	work.Write = func(ctx context.Context, kept *frozen.Frozen) error {
		err := write(ctx, kept)
		if err == nil {
			r.Wake(key, false)
		}
		return err
	}
	return work, nil
}

func (r *reconciler) groupWork(ctx context.Context, req request) (*GroupWork, error) {
	at, err := r.groupAt(ctx, req)
	if err != nil {
		return nil, err
	}
	s := at.scope
	current, err := r.runtime.composed(ctx, s)
	if err != nil {
		return nil, err
	}
	work := &GroupWork{
		GroupPlace: at.GroupPlace, GVK: s.Kind().GVK, Kept: at.kept, RunnerImage: place.RunnerImage(s),
		Copies: map[string]*clone.Rendered{}, Made: place.SessionsIn(s, current),
		Write: func(ctx context.Context, kept *frozen.Frozen) error {
			return terminating(r.runtime.frozen.Write(ctx, s.ObjectMeta(""), kept))
		},
	}
	if s.Infrastructure() != nil {
		work.DataPlaneURL = s.Infrastructure().DataPlane.URL
	}
	work.Rests = at.Suspended
	if current != nil {
		suspended, _, _ := unstructured.NestedBool(current.Object, "spec", "suspended")
		work.Rests = work.Rests || suspended
		for _, name := range at.Components {
			if made := outcome.CopyIn(s, current, name); made != nil {
				work.Copies[name] = made
			}
		}
	}
	return work, nil
}
