// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// own has the labels and annotations of an HTTPRoute say of which SandboxRoute it is made.
func own(meta *metav1.ObjectMeta, key export.Key, uid types.UID) {
	meta.Labels[placement.LabelRouteUID] = string(uid)
	meta.Annotations[placement.AnnotationRouteCluster] = key.Cluster
	meta.Annotations[placement.AnnotationRouteNamespace] = key.Namespace
	meta.Annotations[placement.AnnotationRouteName] = key.Name
}

// ownerOf is the SandboxRoute of which an HTTPRoute is made; the zero value if it is none of ours. Outside of placements
// nothing is ours, also if it says so.
func ownerOf(obj metav1.Object) export.Key {
	if obj.GetLabels()[placement.LabelRouteUID] == "" || !placement.IsNamespace(obj.GetNamespace()) {
		return export.Key{}
	}
	said := obj.GetAnnotations()
	return export.Key{Cluster: said[placement.AnnotationRouteCluster], NamespacedName: types.NamespacedName{
		Namespace: said[placement.AnnotationRouteNamespace], Name: said[placement.AnnotationRouteName],
	}}
}
