// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Place is the placement of an authorized instance.
type Place struct {
	ID    placement.Located
	Owner placement.Owner
	Kind  *Kind
	// Asked is the object that the caller named: the owner, or a compound instance that the owner is the part of.
	Asked placement.Owner
	// Instance is the kro instance on the runtime cluster; nil when only the placement was
	// asked for. It is shared: never write to it.
	Instance *unstructured.Unstructured

	// instance is the name of the kro instance, and ending is set when the placement is being deleted.
	instance string
	ending   bool
	// session is the control Service of a DevSession, in the placement of its group; empty for all other objects.
	session string
}

// With is the same place with its kro instance as it is now.
func (p *Place) With(instance *unstructured.Unstructured) *Place {
	now := *p
	now.Instance = instance
	return &now
}

// Placer finds placements. It reads informers and nothing else.
type Placer struct {
	Cache *RuntimeCache
	// Changes tells of placements that the cache has not shown yet.
	Changes *Changes
}

// Find returns the placement of an object that the caller may use, with its kro instance, or
// says why there is none. It goes by the UID that kcp told of the object and by what the provider wrote on
// namespaces, so that nothing a tenant can write leads anywhere; the labels of what lies there must then
// agree.
func (p *Placer) Find(k *Kind, r Route, g access.Grant) (*Place, *refusal.Error) {
	at, refused := p.Locate(k, r, g)
	if refused != nil {
		return nil, refused
	}
	k = at.Kind
	if g.Deleting || at.ending {
		return nil, refusal.NotFound(refusal.CauseDeleting)
	}
	if !k.Instances.informer.HasSynced() {
		return nil, refusal.Unavailable(refusal.CauseStarting, "the data plane is still learning about this kind: try again", 0, nil)
	}
	at.Instance = k.Instances.Get(at.ID.Namespace(), at.instance)
	if at.Instance == nil {
		return nil, refusal.NotReady(notReadyYet, nil)
	}
	if err := at.ID.Check(at.Instance); err != nil {
		return nil, refusal.NotFound(refusal.CauseForeignRef)
	}
	if IsDeleting(at.Instance) {
		return nil, refusal.NotFound(refusal.CauseDeleting)
	}
	return at, nil
}

// Locate tells which placement stands for an object, if this provider made one, without its kro instance: its own, or that of
// its part. What it does not find does not exist here, even if another provider has an instance of that name.
func (p *Placer) Locate(k *Kind, r Route, g access.Grant) (*Place, *refusal.Error) {
	if k.hosts != nil {
		return p.locateSession(k, r, g)
	}
	at, refused := p.locateOwn(k, r, g)
	if refused != nil && refused.Cause == refusal.CauseNotPlaced && k.Part != nil {
		return p.locatePart(k.Part, r, g)
	}
	return at, refused
}

func (p *Placer) locateOwn(k *Kind, r Route, g access.Grant) (*Place, *refusal.Error) {
	claim, claims := p.Cache.claims(claimKey(k.Provider(), g.Owner.Cluster, k.Template.Name, r.Namespace, r.Name))
	if claims > 1 && g.Cached {
		// The object was perhaps deleted and made again: a cached UID may be the old one's.
		return nil, refusal.NotFound(refusal.CauseAmbiguous)
	}
	owner := g.Owner
	if owner.UID == "" {
		if claims != 1 {
			return nil, refusal.NotFound(refusal.CauseNotPlaced)
		}
		owner, _ = placement.OwnerOf(claim)
	}
	namespace, id := p.Cache.placementOf(k.Provider(), owner)
	if namespace == nil {
		return nil, refusal.NotFound(refusal.CauseNotPlaced)
	}
	placed := placement.Placed{ID: id.ID, Owner: owner, Object: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}
	return &Place{ID: id, Owner: owner, Kind: k, Asked: owner, instance: placed.InstanceName(), ending: namespace.DeletionTimestamp != nil}, nil
}

// IsDeleting reports whether a runtime instance has a deletion timestamp, without reading the time.
func IsDeleting(instance *unstructured.Unstructured) bool {
	at, found, err := unstructured.NestedFieldNoCopy(instance.Object, "metadata", "deletionTimestamp")
	return err != nil || found && at != nil
}

// Placed finds what a grant leads to. It asks kcp once more when a cached answer does not fit what the
// runtime cluster shows: the object may have been deleted and made again under its name. And it waits a
// moment for the placement of a young object: the caller may know from its status that it is Ready before
// the runtime cluster's event has come here.
func (p *Placer) Placed(ctx context.Context, kcp *access.Authorizer, q access.Question, g access.Grant, find func(access.Grant) (*Place, *refusal.Error)) (*Place, *refusal.Error) {
	at, refused := find(g)
	if mayBeStale(g, refused) {
		again, gone := kcp.Again(ctx, q)
		if gone != nil {
			return at, refused
		}
		g = again
		at, refused = find(g)
	}
	if !p.mayBeEarly(g, refused, time.Now()) {
		return at, refused
	}
	_, _ = Again(ctx, p.Changes, ownerKey(g.Owner), earlyPatience, isNotPlaced, func() (*Place, error) {
		if at, refused = find(g); refused != nil {
			return nil, refused
		}
		return at, nil
	})
	return at, refused
}

const (
	// For a placement of an object that is younger than earlyYouth, up to earlyMost requests wait for
	// earlyPatience.
	earlyYouth    = 30 * time.Second
	earlyPatience = time.Second
	earlyMost     = 1024
)

// mayBeEarly reports whether a placement that is not known may be known in a moment.
func (p *Placer) mayBeEarly(g access.Grant, refused *refusal.Error, now time.Time) bool {
	return refused != nil && isNotPlaced(refused) && g.Owner.UID != "" && !g.Deleting && now.Sub(g.Created) < earlyYouth && p.Changes.Waiting() < earlyMost
}

func isNotPlaced(err error) bool {
	var refused *refusal.Error
	return errors.As(err, &refused) && refused.Cause == refusal.CauseNotPlaced
}

// mayBeStale reports whether a refusal may come from a cached UID that is no longer the object's:
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
