// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is a namespaced kind that an export offers.
type Kind struct {
	GVK schema.GroupVersionKind
	// Resource is the plural name.
	Resource string
}

// GVR returns the resource of the kind.
func (k Kind) GVR() schema.GroupVersionResource {
	return k.GVK.GroupVersion().WithResource(k.Resource)
}

// NewObject returns an empty object of the kind, to read into.
func (k Kind) NewObject() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(k.GVK)
	return obj
}

// Metadata returns an empty object of the kind, to watch its metadata with.
func (k Kind) Metadata() *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(k.GVK)
	return obj
}

// mapper knows the one kind, so that no discovery is needed.
func (k Kind) mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{k.GVK.GroupVersion()})
	singular := k.GVK.GroupVersion().WithResource(strings.ToLower(k.GVK.Kind))
	mapper.AddSpecific(k.GVK, k.GVR(), singular, meta.RESTScopeNamespace)
	return mapper
}

// Key names an object of a kind among those of all workspaces.
type Key struct {
	// Cluster is the name of the logical cluster.
	Cluster string
	types.NamespacedName
}

// KeyOf returns the key of an object that a virtual workspace has shown, and reports whether the object
// names its cluster.
func KeyOf(obj metav1.Object) (Key, bool) {
	key := Key{Cluster: logicalcluster.From(obj).String()}
	key.Namespace, key.Name = obj.GetNamespace(), obj.GetName()
	return key, key.Cluster != ""
}
