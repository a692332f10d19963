// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BornInstance is the name of the kro instance in a placement that was there before its owner: nobody
// knew yet what the owner would be called.
const BornInstance = "instance"

// Owner identifies the tenant's object that a placement stands for: the logical cluster it lives in and
// its UID. A name that is used again makes another Owner.
type Owner struct {
	// Cluster is the name of the workspace's logical cluster, for example "2hx1zq5kq0a8v3mw"; never a
	// path.
	Cluster string
	// UID is metadata.uid of the tenant's object.
	UID types.UID
}

// Cold is the placement that is made for an owner which has none: its namespace follows from the owner, so
// that two attempts make one placement.
func (o Owner) Cold() ID { return ID(o) }

// Labels are the labels that make a namespace the owner's placement.
func (o Owner) Labels() map[string]string {
	return map[string]string{LabelOwnerUID: string(o.UID), LabelOwnerCluster: o.Cluster}
}

// Placed is a placement with its owner.
type Placed struct {
	ID

	Owner Owner
	// Object is where the owner is in its workspace: its namespace, empty for an object without one, and
	// its name.
	Object types.NamespacedName
}

// Of tells of which placement a namespace is, and whose; ok is false for a namespace that is none, and for
// a placement without an owner. Tenants write to no namespace of the runtime cluster, so that nothing of
// theirs decides.
func Of(namespace metav1.Object) (p Placed, ok bool) {
	if p.ID, ok = IDOf(namespace); !ok {
		return Placed{}, false
	}
	if p.Owner, ok = OwnerOf(namespace); !ok {
		return Placed{}, false
	}
	annotations := namespace.GetAnnotations()
	p.Object = types.NamespacedName{Namespace: annotations[AnnotationInstanceNamespace], Name: annotations[AnnotationInstanceName]}
	return p, true
}

// OwnerOf reads whose placement a namespace is; ok is false if it has no owner. A namespace of a release
// that knew no owners apart is that of the object which it was made for; the controllers add the labels.
func OwnerOf(namespace metav1.Object) (o Owner, ok bool) {
	labels, annotations := namespace.GetLabels(), namespace.GetAnnotations()
	o = Owner{Cluster: labels[LabelOwnerCluster], UID: types.UID(labels[LabelOwnerUID])}
	if o == (Owner{}) {
		o = Owner{Cluster: labels[LabelCluster], UID: types.UID(labels[LabelInstanceUID])}
	}
	return o, o.Cluster != "" && o.UID != "" && annotations[AnnotationInstanceName] != ""
}

// NamespaceLabels are the labels of the placement's namespace.
func (p Placed) NamespaceLabels(template string) map[string]string {
	labels := p.Labels(template)
	maps.Copy(labels, p.Owner.Labels())
	return labels
}

// InstanceName is the name of the kro instance in the placement.
func (p Placed) InstanceName() string {
	if p.ID == p.Owner.Cold() {
		return p.Object.Name
	}
	return BornInstance
}
