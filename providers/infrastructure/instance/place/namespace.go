// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

const (
	// labelPodSecurity begins the labels by which a namespace has a pod security level.
	labelPodSecurity = "pod-security.kubernetes.io/"
	modeEnforce      = "enforce"
)

// MadeFor is what the namespace of a placement of copies says of it. Nobody but the provider writes there.
func MadeFor(ns *corev1.Namespace) scope.MadeFor {
	return scope.MadeFor{Baseline: ns.Annotations[placement.AnnotationBaseline], PodSecurity: ns.Labels[labelPodSecurity+modeEnforce]}
}

// BuildNamespace builds the namespace of a placement, which says whose it is, and how its tenant describes
// it; or which set keeps it. It enforces the pod security level, so that a tenant's pod template cannot ask
// for more than the operator grants.
func BuildNamespace(s *scope.Scope) *corev1.Namespace {
	var labels, annotations map[string]string
	if s.Member() != nil {
		labels, annotations = s.Member().Labels(s.Template()), s.Annotations()
		maps.Copy(annotations, s.Member().Annotations())
	} else {
		labels, annotations = s.Placement().NamespaceLabels(s.Template()), s.OwnerAnnotations()
		describe(s.Object(), labels, annotations)
		if s.Clones() != nil {
			inheritDescription(s.Object(), labels, annotations)
			if name := s.BaselineName(); name != "" {
				annotations[placement.AnnotationBaseline] = name
			}
			if of := PartOf(s.Object()); of != "" && len(of) <= maxUID {
				annotations[placement.AnnotationCompoundUID] = string(of) // by it the data plane finds the components of that instance
			}
		}
	}
	for _, mode := range []string{modeEnforce, "warn", "audit"} {
		labels[labelPodSecurity+mode] = s.PodSecurity()
	}
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        s.Placement().Namespace(),
			Labels:      labels,
			Annotations: annotations,
		},
	}
}

// maxUID is how long the UID of an object may be that a tenant's annotation names, in bytes. Those of kcp have 36.
const maxUID = 128

// PartOf is the UID of the compound instance that an object may be the part of (Template.spec.compound); empty for none. A part
// that has lost its controller is known by the annotation. Everybody who can make such objects in the workspace can write both,
// and so give one away: it is then made as the instance says, and goes with it.
func PartOf(obj metav1.Object) types.UID {
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return ref.UID
	}
	return types.UID(obj.GetAnnotations()[placement.AnnotationCompoundUID])
}

// isPartOfAnother reports whether two namespaces name different compound instances, or one of them none.
//
// The attack: the owner of a group gives it away, and takes that back. While the namespace says that the group is a part,
// callers of that compound instance are led to pods that it does not describe (dataplane/locate/part.go).
func isPartOfAnother(a, b metav1.Object) bool {
	return a.GetAnnotations()[placement.AnnotationCompoundUID] != b.GetAnnotations()[placement.AnnotationCompoundUID]
}
