// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// place is the placement of an authorized instance.
type place struct {
	id   placement.Located
	kind *kind
	// instance is the kro instance on the runtime cluster; nil when only the placement was
	// asked for. It is shared: never write to it.
	instance *unstructured.Unstructured
}

// placer finds placements. It reads informers and nothing else.
type placer struct {
	cache *runtimeCache
}

// find returns the placement of an object that the caller may use, with its kro instance, or
// says why there is none. The namespace is computed from what kcp told of the object, so that
// nothing a tenant can write leads anywhere; the labels of what lies there must then agree.
func (p *placer) find(k *kind, r route, g grant) (*place, *refusal) {
	id, namespace, refused := p.locate(k, r, g)
	if refused != nil {
		return nil, refused
	}
	if g.deleting || namespace.DeletionTimestamp != nil {
		return nil, notFound(causeDeleting)
	}
	if !k.instances.informer.HasSynced() {
		return nil, unavailable(causeStarting, "the data plane is still learning about this kind: try again", 0, nil)
	}
	instance := k.instances.get(id.Namespace(), r.name)
	if instance == nil {
		return nil, notReady("the instance is not ready (phase Pending): wait for its condition Ready", nil)
	}
	if err := id.Check(instance); err != nil {
		return nil, notFound(causeForeignRef)
	}
	if isDeleting(instance) {
		return nil, notFound(causeDeleting)
	}
	return &place{id: id, kind: k, instance: instance}, nil
}

// locate tells which placement, and which namespace, stands for an object, if this provider made
// one. What it does
// not find does not exist here, even if another provider has an instance of that name.
func (p *placer) locate(k *kind, r route, g grant) (placement.Located, *corev1.Namespace, *refusal) {
	claim, claims := p.cache.claims(claimKey(g.id.Cluster, k.template.Name, r.namespace, r.name))
	if claims > 1 && g.cached {
		// The object was perhaps deleted and made again: a cached UID may be the old one's.
		return placement.Located{}, nil, notFound(causeAmbiguous)
	}
	id := g.id
	if id.UID == "" {
		if claims != 1 {
			return placement.Located{}, nil, notFound(causeNotPlaced)
		}
		id, _, _ = placement.Owner(claim)
	}
	at := id.Locate()
	namespace := lookup[corev1.Namespace](p.cache.namespaces, at.Namespace())
	if namespace == nil || !owns(id, namespace) {
		return placement.Located{}, nil, notFound(causeNotPlaced)
	}
	return at, namespace, nil
}

// isDeleting tells whether a runtime instance has a deletion timestamp, without reading the time.
func isDeleting(instance *unstructured.Unstructured) bool {
	at, found, err := unstructured.NestedFieldNoCopy(instance.Object, "metadata", "deletionTimestamp")
	return err != nil || found && at != nil
}

// owns tells whether a namespace is labelled as the placement of id. A namespace that somebody
// made under the computed name, without the labels, is no placement.
func owns(id placement.ID, namespace *corev1.Namespace) bool {
	owner, _, ok := placement.Owner(namespace)
	return ok && owner == id
}

// findPlaced finds what a grant leads to, and asks kcp once more when a cached answer does not fit what
// the runtime cluster shows: the object may have been deleted and made again under its name.
func findPlaced[T any](ctx context.Context, kcp *authorizer, q question, g grant, find func(grant) (T, *refusal)) (T, *refusal) {
	at, refused := find(g)
	if !mayBeStale(g, refused) {
		return at, refused
	}
	if g, refused = kcp.again(ctx, q); refused != nil {
		return at, refused
	}
	return find(g)
}

// mayBeStale tells whether a refusal may come from a cached UID that is no longer the object's:
// then kcp is asked once more before the caller hears it.
func mayBeStale(g grant, refused *refusal) bool {
	if !g.cached || refused == nil {
		return false
	}
	switch refused.cause {
	case causeNotPlaced, causeDeleting, causeAmbiguous:
		return true
	}
	return false
}
