// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package placement knows what a placement is: what stands on the runtime cluster for one
// instance of a tenant. It computes names, stamps ownership and checks it. It reads and writes
// nothing; the controllers that make placements and the data plane that routes to them both
// rely on it, so that there is one answer to "is this object part of that instance?".
//
//	names.go      labels, annotations and names
//	placement.go  which placement it is (ID), and which objects are part of it
//	owner.go      whose it is (Owner), which its namespace alone tells
//	member.go     which set keeps it ready for somebody (Member)
//
// The two are apart because a placement may be there before its owner is: it keeps its ID for good, and
// gets an owner later, by one write to its namespace.
package placement

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

const (
	namespacePrefix = "sb-"
	hashLength      = 26 // 130 bits in base32
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ID identifies a placement for good. It is in the labels of everything in the placement and says
// nothing about whose it is.
type ID struct {
	// Origin is the name of the logical cluster that the placement was made in, for example
	// "2hx1zq5kq0a8v3mw"; never a path. An owner may be in another.
	Origin string
	// UID is the placement's: that of the tenant's object if it was made for one (Owner.Cold).
	UID types.UID
}

// bornPrefix begins the UIDs of placements that were made for nobody. No API server makes such a UID, so
// that no tenant's object can have it, and the namespace's name holds it: unlike a label it cannot be taken
// off.
const bornPrefix = "born-"

// Bear returns the ID of a placement that is made before there is an owner.
func Bear(origin string) ID { return ID{Origin: origin, UID: bornPrefix + uuid.NewUUID()} }

// Born reports whether the placement was made before there was an owner.
func (id ID) Born() bool { return strings.HasPrefix(string(id.UID), bornPrefix) }

// Namespace is the namespace of the placement: "sb-" and 26 lower-case base32 characters of
// SHA-256(origin, 0x00, UID). It is computed, so that no namespace can pass for the placement of
// another ID.
func (id ID) Namespace() string {
	// Every request asks; the arrays keep it to one allocation.
	var input [256]byte
	sum := sha256.Sum256(append(append(append(input[:0], id.Origin...), 0), id.UID...))
	var name [len(namespacePrefix) + sha256.Size*8/5 + 1]byte
	copy(name[:], namespacePrefix)
	base32Lower.Encode(name[len(namespacePrefix):], sum[:])
	return string(name[:len(namespacePrefix)+hashLength])
}

// IsNamespace tells whether a namespace's name has the form of a placement's.
func IsNamespace(name string) bool {
	hash, ok := strings.CutPrefix(name, namespacePrefix)
	return ok && len(hash) == hashLength && strings.Trim(hash, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// Labels are the labels of the placement's objects.
func (id ID) Labels(template string) map[string]string {
	return map[string]string{
		LabelInstanceUID: string(id.UID),
		LabelCluster:     id.Origin,
		LabelTemplate:    template,
		LabelManagedBy:   ManagedBy,
	}
}

// IDOf tells of which placement a namespace is; ok is false for one that is none: its labels and its name
// do not agree.
func IDOf(namespace metav1.Object) (id ID, ok bool) {
	id = ID{Origin: labelOf(namespace, LabelCluster), UID: types.UID(labelOf(namespace, LabelInstanceUID))}
	return id, id.Origin != "" && id.UID != "" && id.Namespace() == namespace.GetName()
}

// ErrForeign is the error of Check: the object is not part of the placement.
var ErrForeign = errors.New("object does not belong to this instance")

// Located is an ID with its namespace, which is computed once: a request asks for it again and
// again.
type Located struct {
	ID

	namespace string
}

// Locate computes the namespace.
func (id ID) Locate() Located { return Located{ID: id, namespace: id.Namespace()} }

// Namespace is that of the ID.
func (l Located) Namespace() string { return l.namespace }

// Check tells whether an object is part of the placement: it lies in the computed namespace and
// carries the placement's UID. Without it, a graph's status that points at another namespace, or at a
// Service that somebody else made, would lead the data plane there.
func (l Located) Check(obj metav1.Object) error {
	if ns := obj.GetNamespace(); ns != l.namespace {
		return fmt.Errorf("%w: it lies in namespace %q", ErrForeign, ns)
	}
	if uid := labelOf(obj, LabelInstanceUID); uid != string(l.UID) {
		return fmt.Errorf("%w: label %s is missing or another's", ErrForeign, LabelInstanceUID)
	}
	return nil
}

// labelOf reads one label. GetLabels of an unstructured object copies all of them.
func labelOf(obj metav1.Object, name string) string {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		value, _, _ := unstructured.NestedString(u.Object, "metadata", "labels", name)
		return value
	}
	return obj.GetLabels()[name]
}
