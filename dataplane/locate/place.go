// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Place is the placement of an authorized instance.
type Place struct {
	ID   placement.Located
	Kind *Kind
	// Instance is the kro instance on the runtime cluster; nil when only the placement was
	// asked for. It is shared: never write to it.
	Instance *unstructured.Unstructured
}

// Placer finds placements. It reads informers and nothing else.
type Placer struct {
	Cache *RuntimeCache
}

// Find returns the placement of an object that the caller may use, with its kro instance, or
// says why there is none. The namespace is computed from what kcp told of the object, so that
// nothing a tenant can write leads anywhere; the labels of what lies there must then agree.
func (p *Placer) Find(k *Kind, r Route, g access.Grant) (*Place, *refusal.Error) {
	id, namespace, refused := p.Locate(k, r, g)
	if refused != nil {
		return nil, refused
	}
	if g.Deleting || namespace.DeletionTimestamp != nil {
		return nil, refusal.NotFound(refusal.CauseDeleting)
	}
	if !k.Instances.informer.HasSynced() {
		return nil, refusal.Unavailable(refusal.CauseStarting, "the data plane is still learning about this kind: try again", 0, nil)
	}
	instance := k.Instances.Get(id.Namespace(), r.Name)
	if instance == nil {
		return nil, refusal.NotReady(notReadyYet, nil)
	}
	if err := id.Check(instance); err != nil {
		return nil, refusal.NotFound(refusal.CauseForeignRef)
	}
	if IsDeleting(instance) {
		return nil, refusal.NotFound(refusal.CauseDeleting)
	}
	return &Place{ID: id, Kind: k, Instance: instance}, nil
}

// Locate tells which placement, and which namespace, stands for an object, if this provider made
// one. What it does
// not find does not exist here, even if another provider has an instance of that name.
func (p *Placer) Locate(k *Kind, r Route, g access.Grant) (placement.Located, *corev1.Namespace, *refusal.Error) {
	claim, claims := p.Cache.claims(claimKey(g.ID.Cluster, k.Template.Name, r.Namespace, r.Name))
	if claims > 1 && g.Cached {
		// The object was perhaps deleted and made again: a cached UID may be the old one's.
		return placement.Located{}, nil, refusal.NotFound(refusal.CauseAmbiguous)
	}
	id := g.ID
	if id.UID == "" {
		if claims != 1 {
			return placement.Located{}, nil, refusal.NotFound(refusal.CauseNotPlaced)
		}
		id, _, _ = placement.Owner(claim)
	}
	at := id.Locate()
	namespace := Lookup[corev1.Namespace](p.Cache.Namespaces, at.Namespace())
	if namespace == nil || !owns(id, namespace) {
		return placement.Located{}, nil, refusal.NotFound(refusal.CauseNotPlaced)
	}
	return at, namespace, nil
}

// IsDeleting tells whether a runtime instance has a deletion timestamp, without reading the time.
func IsDeleting(instance *unstructured.Unstructured) bool {
	at, found, err := unstructured.NestedFieldNoCopy(instance.Object, "metadata", "deletionTimestamp")
	return err != nil || found && at != nil
}

// owns tells whether a namespace is labelled as the placement of id. A namespace that somebody
// made under the computed name, without the labels, is no placement.
func owns(id placement.ID, namespace *corev1.Namespace) bool {
	owner, _, ok := placement.Owner(namespace)
	return ok && owner == id
}

// FindPlaced finds what a grant leads to, and asks kcp once more when a cached answer does not fit what
// the runtime cluster shows: the object may have been deleted and made again under its name.
func FindPlaced[T any](ctx context.Context, kcp *access.Authorizer, q access.Question, g access.Grant, find func(access.Grant) (T, *refusal.Error)) (T, *refusal.Error) {
	at, refused := find(g)
	if !mayBeStale(g, refused) {
		return at, refused
	}
	if g, refused = kcp.Again(ctx, q); refused != nil {
		return at, refused
	}
	return find(g)
}

// mayBeStale tells whether a refusal may come from a cached UID that is no longer the object's:
// then kcp is asked once more before the caller hears it.
func mayBeStale(g access.Grant, refused *refusal.Error) bool {
	if !g.Cached || refused == nil {
		return false
	}
	switch refused.Cause {
	case refusal.CauseNotPlaced, refusal.CauseDeleting, refusal.CauseAmbiguous:
		return true
	}
	return false
}
