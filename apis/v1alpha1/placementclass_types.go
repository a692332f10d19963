// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// PlacementClass is a kind of place for pods, in the operator's words. Tenants name it and see nothing of what it
// means.
type PlacementClass struct {
	// DisplayName and Cost are for people.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Cost string `json:"cost,omitempty"`

	// NodeSelector is added to that of the pod, and wins.
	//
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations are added to those of the pod.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// RuntimeClassName takes the place of spec.isolation.runtimeClassName.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// PriorityClassName is that of the pod. Choose one that does not evict the pods of other tenants.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// PlacementClassUnknown is a reason of the condition Valid, and of Composed: the operator has no placement class of the
// name.
const PlacementClassUnknown = "PlacementClassUnknown"
