// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/frozen"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// ErrNotPlaced means that an object has no placement with copies yet.
var ErrNotPlaced = errors.New("it has no copies yet")

// Groups are the SandboxGroups of all tenants, for a controller that leads requests to their copies.
type Groups struct {
	// runner is that of the kind; nil while the provider offers none.
	runner func() *runner
	// changed is told of each group that comes, changes or goes, or whose status does.
	changed func(group export.Key)
	// sessions is told of each DevSession of a group after a look at the group; nil for nobody.
	sessions func(group, session export.Key)
}

// GroupPlace is where the copies of a group are.
type GroupPlace struct {
	// Group is the object, as it was read.
	Group metav1.Object
	// Baseline is the one that the copies are of; nil while the workspace has not that Baseline.
	Baseline *sandbarv1alpha1.Baseline
	// SandboxID is the one by which requests are told to be for the group.
	SandboxID string
	// Components are the names of those that the tenant has given it.
	Components []string
	// Suspended is set while the tenant wants no copies to run.
	Suspended bool
	// ObjectMeta is the metadata of an object that is put beside the copies.
	ObjectMeta func(name string) metav1.ObjectMeta
}

// Place reads where the copies of a group are. Errors: ErrNoKind; ErrNotPlaced; one that export.IsGone recognizes if there is no
// such group; and those of reading, which a retry mends.
func (g *Groups) Place(ctx context.Context, key export.Key) (*GroupPlace, error) {
	r := g.runner()
	if r == nil || r.Controller == nil {
		return nil, ErrNoKind
	}
	return r.instances.groupPlace(ctx, key)
}

func (r *reconciler) groupPlace(ctx context.Context, req request) (*GroupPlace, error) {
	at, err := r.groupAt(ctx, req)
	if err != nil {
		return nil, err
	}
	return &at.GroupPlace, nil
}

// groupAt is where the copies of a group are, with what is known of the group itself.
type groupAt struct {
	GroupPlace

	scope *scope.Scope
	kept  *frozen.Frozen
}

func (r *reconciler) groupAt(ctx context.Context, req request) (*groupAt, error) {
	placements, err := r.placementsOf(ctx, req)
	if err != nil {
		return nil, err
	}
	obj, err := r.tenants.Live(ctx, req)
	if err != nil {
		return nil, err
	}
	status, err := outcome.ReadStatus(obj)
	if err != nil {
		return nil, err
	}
	s, err := r.scopeOf(ctx, req, found{obj, status}, placements)
	if err != nil {
		return nil, err
	}
	path := r.tenants.WorkspacePath(ctx, req.Cluster)
	if path == "" {
		return nil, errPathUnknown
	}
	if s, err = r.madeFor(ctx, s.Protected(obj, path)); err != nil {
		return nil, err
	}
	kept, err := r.runtime.frozen.Read(ctx, s.Placement().Namespace())
	if err != nil {
		return nil, err
	}
	if kept == nil || s.BaselineName() == "" {
		return nil, ErrNotPlaced
	}
	suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended")
	place := GroupPlace{Suspended: suspended, Group: obj, Baseline: s.PlacementBaseline(), SandboxID: kept.ID, Components: s.Components(), ObjectMeta: s.ObjectMeta}
	return &groupAt{GroupPlace: place, scope: s, kept: kept}, nil
}

// Groups are the objects of the kind SandboxGroup.
func (k *Kinds) Groups() *Groups { return k.groups }

// groupRunner is the runner of the kind SandboxGroup; nil if there is none whose objects are copies.
func (k *Kinds) groupRunner() *runner {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, r := range k.running {
		if r.isOfGroups() {
			return r
		}
	}
	return nil
}

func (r *runner) isOfGroups() bool {
	return r.kind.GVK.Kind == builtin.SandboxGroup && r.settings.Load().Clones != nil
}
