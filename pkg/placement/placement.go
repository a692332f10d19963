// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package placement knows what a placement is: what stands on the runtime cluster for one
// instance of a tenant. It computes names, stamps ownership and checks it. It reads and writes
// nothing; the controllers that make placements and the data plane that routes to them both
// rely on it, so that there is one answer to "is this object part of that instance?".
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
)

// Labels and annotations on the namespace of a placement, on the kro instance in it and on
// every object that the provider or a graph puts beside it.
const (
	// LabelInstanceUID holds the UID of the tenant's instance. Only objects that carry it may
	// be reached through the data plane.
	LabelInstanceUID = "sandbar.dev/instance-uid"
	// LabelCluster holds the logical cluster name of the tenant's workspace.
	LabelCluster = "sandbar.dev/cluster"
	// LabelTemplate holds the name of the Template that defines the instance's kind.
	LabelTemplate = "sandbar.dev/template"
	// LabelManagedBy and ManagedBy mark what the provider itself wrote.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "sandbar"

	// AnnotationInstanceNamespace and AnnotationInstanceName tell where the tenant's object is;
	// they are annotations because a name may be longer than a label value.
	AnnotationInstanceNamespace = "sandbar.dev/instance-namespace"
	AnnotationInstanceName      = "sandbar.dev/instance-name"
	// AnnotationWorkspacePath is the workspace's path at the time of placing, for people.
	AnnotationWorkspacePath = "sandbar.dev/workspace-path"
	// AnnotationPreviewsNotBefore is what a tenant writes on its instance: preview URLs that were
	// signed before this time (RFC 3339) are void.
	AnnotationPreviewsNotBefore = "sandbar.dev/previews-not-before"

	// AnnotationSuspension is on the kro instance while its spec.suspended is true and holds the
	// sandbarv1alpha1.SuspensionCause. The data plane wakes an instance only if this says Unused.
	AnnotationSuspension = "sandbar.dev/suspension"

	// LabelGraph, on the kro instance, is the revision of the Template's graph that it is composed
	// with (package revision).
	LabelGraph = "sandbar.dev/graph"
	// LabelRevision, on the kro instance and on the ConfigMap with the platform's values, is the
	// whole revision.
	LabelRevision = "sandbar.dev/revision"
	// AnnotationUpdating is on the kro instance while it takes a change of the operator: since when,
	// if the instance was Ready before, or its pod is refused with the change.
	AnnotationUpdating = "sandbar.dev/updating-since"
	// AnnotationEnding is on the ActivityLease while the controllers are about to delete the instance
	// for being unused. Until it is gone the data plane lets nobody use the instance.
	AnnotationEnding = "sandbar.dev/ending"

	// LabelReplica is on the Lease of each replica of the data plane and holds the id of its
	// process, which is another after each start.
	LabelReplica = "sandbar.dev/replica"
	// AnnotationProvider holds the logical cluster of the provider workspace that made a placement.
	// Two providers that share a runtime cluster against all advice would otherwise sweep away each
	// other's placements.
	AnnotationProvider = "sandbar.dev/provider"

	// AnnotationAllowDeletion, with the value "true" on a ResourceGraphDefinition or on a
	// CustomResourceDefinition of the group of instances, lets an administrator delete it, and with it
	// all instances of the kind with their data (install/manifests/runtime/60-deletion.yaml).
	AnnotationAllowDeletion = "sandbar.dev/allow-deletion"

	// AnnotationControlKey is on a ControlSecret whose token is derived and names the entry of
	// ControlKeysSecret that made it. A token without it was made up and cannot be made again.
	AnnotationControlKey = "sandbar.dev/control-key"

	// Finalizer is on every tenant's instance that has, or may have, a placement.
	Finalizer = "sandbar.dev/placement"
)

// Names of objects that every placement or the provider has.
const (
	// SystemNamespace is the provider's own namespace on the runtime cluster.
	SystemNamespace = "sandbar-system"
	// NetworkCheckNamespace is where the controllers try whether network policies hold.
	NetworkCheckNamespace = "sandbar-netcheck"
	// PlatformConfigMap holds the operator's values for graphs, in SystemNamespace.
	PlatformConfigMap = "sandbar-platform"
	// PreviewKeysSecret holds the keys of preview links and sessions, in SystemNamespace. The
	// name of an entry is the key's; the one that sorts last is used for what is new.
	PreviewKeysSecret = "sandbar-preview-keys"
	// ControlKeysSecret holds the keys that control tokens are derived from, in SystemNamespace. The
	// name of an entry is the key's; the one that sorts last makes the tokens, the one before it
	// the former ones.
	ControlKeysSecret = "sandbar-control-keys"
	// DataPlaneLease is a Lease in SystemNamespace that all replicas of the data plane share. While
	// at least one of them serves, its renewTime is young. Its acquireTime is since when time counts
	// as unused: since when one has served without a gap, or since the controllers last had to
	// start anew.
	DataPlaneLease = "sandbar-serving"
	// FormerDataPlaneLease is what DataPlaneLease was called when one Lease stood for all replicas.
	// Only a replica of that version renews it.
	FormerDataPlaneLease = "sandbar-dataplane"
	// ReplicaLeasePrefix begins the names of the Leases in SystemNamespace that each replica of the
	// data plane has of its own, with the label LabelReplica.
	ReplicaLeasePrefix = "sandbar-dataplane-"
	// ActivityLease is a Lease in each placement. Its renewTime is when the instance was last used,
	// and its leaseDurationSeconds for how long it may be used until that is recorded again. The
	// controllers make it, the data plane writes it before it lets a request through.
	ActivityLease = "sandbar-activity"
	// ControlSecret is the Secret in each placement that holds the control token.
	ControlSecret = "sandbar-control"
	// ControlTokenKey is the key of the token in ControlSecret, ControlPreviousKey that of the one
	// before it, which is there during a rotation.
	ControlTokenKey    = "token"
	ControlPreviousKey = "previous"
	// PasswordSecret is the Secret with a password for what a graph runs, a database above all.
	// It is in the placements of those kinds whose graph names it.
	PasswordSecret = "sandbar-password"
	// PasswordKey is the key of the password in PasswordSecret.
	PasswordKey = "password"
	// LogSecret is the Secret with the end of the log of an instance that was suspended (package
	// keptlog).
	LogSecret = "sandbar-log"
)

const (
	namespacePrefix = "sb-"
	hashLength      = 26 // 130 bits in base32
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ID identifies an instance for good: the logical cluster it lives in and its UID. A name that
// is used again makes another ID.
type ID struct {
	// Cluster is the logical cluster name, for example "2hx1zq5kq0a8v3mw"; never a path.
	Cluster string
	// UID is metadata.uid of the tenant's object.
	UID types.UID
}

// Namespace is the namespace of the instance's placement: "sb-" and 26 lower-case base32
// characters of SHA-256(cluster, 0x00, UID). It is computed and never read from an object, so
// that nothing a tenant can write decides where a request goes.
func (id ID) Namespace() string {
	// Every request asks; the arrays keep it to one allocation.
	var input [256]byte
	sum := sha256.Sum256(append(append(append(input[:0], id.Cluster...), 0), id.UID...))
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
		LabelCluster:     id.Cluster,
		LabelTemplate:    template,
		LabelManagedBy:   ManagedBy,
	}
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

// Check tells whether an object is part of the instance's placement: it lies in the computed
// namespace and carries the instance's UID. Without it, a graph's status that points at
// another namespace, or at a Service that somebody else made, would lead the data plane there.
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

// Owner tells which instance an object on the runtime cluster belongs to, by its labels and
// annotations; ok is false when it belongs to none. Trust it only for objects that tenants
// cannot write, which is all of the runtime cluster.
func Owner(obj metav1.Object) (id ID, instance types.NamespacedName, ok bool) {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	id = ID{Cluster: labels[LabelCluster], UID: types.UID(labels[LabelInstanceUID])}
	instance = types.NamespacedName{
		Namespace: annotations[AnnotationInstanceNamespace],
		Name:      annotations[AnnotationInstanceName],
	}
	return id, instance, id.Cluster != "" && id.UID != "" && instance.Name != ""
}
