// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BornInstance is the name of the kro instance in a placement that was born: nobody knew yet what its owner
// would be called.
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
func (o Owner) Cold() ID { return ID{Origin: o.Cluster, UID: o.UID} }

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
	// Adopted is how a born placement got its owner; zero for any other.
	Adopted Adoption
}

// Adoption is how a placement got its owner.
type Adoption struct {
	// At is when that was.
	At time.Time
	// Set is the name of the SandboxSet that had it.
	Set string
}

// Of tells of which placement a namespace is, and whose; ok is false for a namespace that is none, and for
// a placement without an owner. Tenants write to no namespace of the runtime cluster, so that nothing of
// theirs decides.
func Of(namespace metav1.Object) (p Placed, ok bool) {
	if p.Owner, ok = OwnerOf(namespace); !ok {
		return Placed{}, false
	}
	p.ID, _ = IDOf(namespace)
	annotations := namespace.GetAnnotations()
	p.Object = types.NamespacedName{Namespace: annotations[AnnotationInstanceNamespace], Name: annotations[AnnotationInstanceName]}
	if p.Born() {
		p.Adopted.Set = annotations[AnnotationSetName]
		p.Adopted.At, _ = time.Parse(time.RFC3339Nano, annotations[AnnotationAdoptedAt]) // zero if nobody has written it
	}
	return p, true
}

// OwnerOf reads whose placement a namespace is; ok is false if it has no owner. One that was made for its
// owner is that owner's for good: the labels are an index, and somebody may have taken
// them off, or the namespace be of a release that knew none. One that was born says so itself, by its UID,
// and has the owner of its labels or none.
func OwnerOf(namespace metav1.Object) (o Owner, ok bool) {
	id, ok := IDOf(namespace)
	if !ok {
		return Owner{}, false
	}
	o = Owner{Cluster: id.Origin, UID: id.UID}
	if id.Born() {
		o = Owner{Cluster: labelOf(namespace, LabelOwnerCluster), UID: types.UID(labelOf(namespace, LabelOwnerUID))}
	}
	return o, o.Cluster != "" && o.UID != "" && namespace.GetAnnotations()[AnnotationInstanceName] != ""
}

// NamespaceLabels are the labels of the placement's namespace.
func (p Placed) NamespaceLabels(template string) map[string]string {
	labels := p.Labels(template)
	maps.Copy(labels, p.Owner.Labels())
	return labels
}

// InstanceName is the name of the kro instance in the placement.
func (p Placed) InstanceName() string {
	if p.Born() {
		return BornInstance
	}
	return p.Object.Name
}
