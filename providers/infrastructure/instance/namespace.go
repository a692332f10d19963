// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaultPodSecurity is the pod security level of a placement when the operator names none.
const defaultPodSecurity = "restricted"

// buildNamespace builds the namespace of a placement. It enforces the pod security level, so
// that a tenant's pod template cannot ask for more than the operator grants.
func buildNamespace(s *scope) *corev1.Namespace {
	labels := s.id.Labels(s.template)
	level := cmp.Or(s.infrastructure.Isolation.PodSecurity, defaultPodSecurity)
	for _, mode := range []string{"enforce", "warn", "audit"} {
		labels["pod-security.kubernetes.io/"+mode] = level
	}
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        s.id.Namespace(),
			Labels:      labels,
			Annotations: s.annotations(),
		},
	}
}

// objectMeta is the metadata of an object that the provider puts into the namespace.
func (s *scope) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Namespace:   s.id.Namespace(),
		Labels:      s.id.Labels(s.template),
		Annotations: s.annotations(),
	}
}
