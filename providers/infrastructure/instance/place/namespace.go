// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

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
	}
	for _, mode := range []string{"enforce", "warn", "audit"} {
		labels["pod-security.kubernetes.io/"+mode] = s.PodSecurity()
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
