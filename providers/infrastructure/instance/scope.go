// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// request names a tenant's object: the unit of work of a kind's controller.
type request struct {
	// cluster is the name of the logical cluster.
	cluster string
	types.NamespacedName
}

// kind is the kind of instances that a Template defines.
type kind struct {
	template string
	gvk      schema.GroupVersionKind
	resource string
}

func (k kind) gvr() schema.GroupVersionResource {
	return k.gvk.GroupVersion().WithResource(k.resource)
}

// newObject returns an empty object of the kind, to read into.
func (k kind) newObject() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(k.gvk)
	return obj
}

// settings are what the operator says of a kind: they change while its controller runs, and
// each change makes all instances be reconciled again.
type settings struct {
	// provider is the logical cluster of the provider workspace. Placements of another
	// provider are never touched.
	provider string
	// dataPlane is the Template's contract, with the verbs of its development contract.
	dataPlane sandbarv1alpha1.DataPlane
	// wantsPassword tells that the graph uses the Secret placement.PasswordSecret.
	wantsPassword bool
	// pod is nil unless tenants write a pod template for instances of the kind.
	pod *podWords
	// infrastructure is nil until the operator has created the InfrastructureProvider.
	infrastructure *sandbarv1alpha1.InfrastructureProviderSpec
}

func (s settings) equal(other settings) bool {
	return s.provider == other.provider && s.wantsPassword == other.wantsPassword &&
		equality.Semantic.DeepEqual(s.dataPlane, other.dataPlane) && equality.Semantic.DeepEqual(s.pod, other.pod) &&
		equality.Semantic.DeepEqual(s.infrastructure, other.infrastructure)
}

// scope is what one reconcile knows; the builders of a placement read it and nothing else.
type scope struct {
	kind
	settings
	id placement.ID
	// object is the tenant's object; its spec and metadata are a tenant's words.
	object *unstructured.Unstructured
	// workspacePath is for people and may be empty.
	workspacePath string
	// lastUsed is when the instance was last used; zero until its Lease has been read.
	lastUsed time.Time
	// decision is what the lifecycle makes of the instance, once that is decided; see intent.
	decision decision
	decided  bool
	// wasResting tells whether the instance rested before the decision.
	wasResting bool
}

// annotationProvider holds the logical cluster of the provider workspace that made a
// placement. Two providers that share a runtime cluster against all advice would otherwise
// sweep away each other's placements.
const annotationProvider = "sandbar.dev/provider"

// annotations say whose the placement is; placement.Owner reads them back.
func (s *scope) annotations() map[string]string {
	annotations := map[string]string{
		placement.AnnotationInstanceNamespace: s.object.GetNamespace(),
		placement.AnnotationInstanceName:      s.object.GetName(),
		annotationProvider:                    s.provider,
	}
	if s.workspacePath != "" {
		annotations[placement.AnnotationWorkspacePath] = s.workspacePath
	}
	return annotations
}
