// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

// ownerIndex finds the placements of a tenant's object by cluster, namespace and name, without
// the UID: that is how a placement whose object is gone is found.
const ownerIndex = "sandbar.owner"

func indexOwner(obj client.Object) []string {
	p, ok := placement.Of(obj)
	if !ok {
		return nil
	}
	return []string{ownerKey(requestOf(p))}
}

// requestOf names the object that a placement stands for.
func requestOf(p placement.Placed) request {
	return request{Cluster: p.Owner.Cluster, NamespacedName: p.Object}
}

func ownerKey(req request) string { return req.Cluster + "|" + req.String() }

// placementsOf lists the placements of a request's object, former ones included.
func (r *reconciler) placementsOf(ctx context.Context, req request) ([]corev1.Namespace, error) {
	var list corev1.NamespaceList
	if err := r.runtime.client.List(ctx, &list, client.MatchingFields{ownerIndex: ownerKey(req)}); err != nil {
		return nil, fmt.Errorf("listing the placements: %w", err)
	}
	provider := r.settings().Provider
	var ours []corev1.Namespace
	for _, ns := range list.Items {
		if ns.Labels[placement.LabelTemplate] == r.kind.Template && placement.ProviderOf(&ns) == provider {
			ours = append(ours, ns)
		}
	}
	return ours, nil
}

// placementOf is the placement of an object among those that its name has, or had, and if none is its own,
// the one that will be made for it. adopts tells that the kind's instances may take members: one that it has adopted a moment ago the cache may not show yet.
func (r *reconciler) placementOf(ctx context.Context, obj found, adopts bool, req request, placements []corev1.Namespace) (placement.Placed, error) {
	owner := placement.Owner{Cluster: req.Cluster, UID: obj.object.GetUID()}
	if ns := chosen(owner, placements, obj.status.Start); ns != nil {
		p, _ := placement.Of(ns)
		return p, nil
	}
	cold := placement.Placed{ID: owner.Cold(), Owner: owner, Object: req.NamespacedName}
	if !adopts {
		return cold, nil
	}
	if p, ok := r.members.Adopted(owner); ok {
		return p, nil
	}
	if !r.mayHaveAdopted(obj, owner) {
		return cold, nil
	}
	p, found, err := r.members.LookFor(ctx, owner)
	if err != nil || !found {
		return cold, err
	}
	return p, nil
}

// freshFor is for how long an object that nobody has looked at cannot have been another process's to place.
const freshFor = 30 * time.Second

// mayHaveAdopted reports whether an object without a placement that the cache shows may have one
// nevertheless, by an adoption of this or of another process.
func (r *reconciler) mayHaveAdopted(obj found, owner placement.Owner) bool {
	if start := obj.status.Start; start != nil {
		return start.Type == sandbarv1alpha1.StartWarm
	}
	if r.capacity.holds(owner) {
		return false // the cache has not seen yet what is made for it
	}
	return r.members.Doubts(owner) || r.now().Sub(obj.object.GetCreationTimestamp().Time) > freshFor
}

// found is a tenant's object as kcp has just shown it, with its status decoded.
type found struct {
	object *unstructured.Unstructured
	status sandbarv1alpha1.InstanceStatus
}

// tellsOf reports whether a status tells of a placement: when that was adopted, or that it was made for its owner.
func tellsOf(start *sandbarv1alpha1.InstanceStart, p placement.Placed) bool {
	switch {
	case start == nil:
		return false
	case start.Type == sandbarv1alpha1.StartCold:
		return !p.Born()
	}
	return start.Times.Placed != nil && p.Adopted.At.Equal(start.Times.Placed.Time)
}

// chosen is the placement of an owner among some; nil if it has none. It has more than one only after two
// processes have each given it one: then it is the one that its status tells of, which only one of them
// could write, or else the first. The data plane reaches none of several.
func chosen(owner placement.Owner, placements []corev1.Namespace, told *sandbarv1alpha1.InstanceStart) (first *corev1.Namespace) {
	var since time.Time
	for i := range placements {
		p, ok := placement.Of(&placements[i])
		if !ok || p.Owner != owner {
			continue
		}
		if tellsOf(told, p) {
			return &placements[i]
		}
		at := p.Adopted.At
		if at.IsZero() {
			at = placements[i].CreationTimestamp.Time
		}
		if first == nil || at.Before(since) || at.Equal(since) && placements[i].Name < first.Name {
			first, since = &placements[i], at
		}
	}
	return first
}

// removeFormer removes the placements that the name had before: their objects are gone, whether or not
// their finalizer was honoured (a tenant may strip it). present is the object that kcp has just shown
// under the name, nil if kcp has just said that there is none.
func (r *reconciler) removeFormer(ctx context.Context, placements []corev1.Namespace, present *found) error {
	var own *corev1.Namespace
	var owner placement.Owner
	if present != nil && len(placements) > 0 {
		owner, _ = placement.OwnerOf(&placements[0]) // all are of one workspace
		owner.UID = present.object.GetUID()
		own = chosen(owner, placements, present.status.Start)
	}
	for i := range placements {
		ns := &placements[i]
		if ns == own {
			continue
		}
		if whose, _ := placement.OwnerOf(ns); own != nil && whose == owner && isUntold(present.status) {
			continue // which one stays is decided by the write of the status: another process may be about to tell of this one
		}
		if err := r.removeNamespace(ctx, ns); err != nil {
			return err
		}
	}
	return nil
}

// removeNamespace deletes a placement at once; kro's finalizer on the kro instance makes it
// prune what lies elsewhere.
func (r *reconciler) removeNamespace(ctx context.Context, ns *corev1.Namespace) error {
	if ns.DeletionTimestamp != nil {
		return nil
	}
	log.FromContext(ctx).Info("removing a placement whose instance is gone", "placement", ns.Name)
	return r.runtime.delete(ctx, ns)
}

// delete deletes the object that was read and no later one of the same name.
func (c runtimeCluster) delete(ctx context.Context, obj client.Object) error {
	return runtimecluster.Delete(ctx, c.client, obj)
}
