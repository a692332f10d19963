// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sandbar-dev/sandbar/pkg/placement"
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
		if ns.Labels[placement.LabelTemplate] == r.kind.Template && ns.Annotations[placement.AnnotationProvider] == provider {
			ours = append(ours, ns)
		}
	}
	return ours, nil
}

// placementOf is the placement of an owner among those that its name has, or had, and if none is the
// owner's, the one that will be made for it.
func placementOf(owner placement.Owner, req request, placements []corev1.Namespace) placement.Placed {
	for i := range placements {
		if p, ok := placement.Of(&placements[i]); ok && p.Owner == owner {
			return p
		}
	}
	return placement.Placed{ID: owner.Cold(), Owner: owner, Object: req.NamespacedName}
}

// removeFormer removes the placements that the name had before: their objects are gone, whether or not
// their finalizer was honoured (a tenant may strip it). present is the object that kcp has just shown
// under the name, nil if kcp has just said that there is none.
func (r *reconciler) removeFormer(ctx context.Context, placements []corev1.Namespace, present *unstructured.Unstructured) error {
	for i := range placements {
		ns := &placements[i]
		if owner, ok := placement.OwnerOf(ns); ok && present != nil && owner.UID == present.GetUID() {
			continue
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
	uid := obj.GetUID()
	err := c.client.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return nil
}
