// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions of a component of a SandboxGroup.
const (
	// ComponentSourceResolved is true when the workload was found and frozen.
	ComponentSourceResolved = "SourceResolved"
	// ComponentRendered is true when a copy could be made of the frozen workload.
	ComponentRendered = "Rendered"
	// ComponentApplied is true when the runtime cluster has taken the copy.
	ComponentApplied = "Applied"
	// ComponentReady is true when all replicas of the copy are ready.
	ComponentReady = "Ready"
)

// SandboxGroupStatus is what the status of an instance has that is made of copies, beside InstanceStatus.
type SandboxGroupStatus struct {
	// SandboxID is the value by which requests are routed to the copies: sbx- and eight letters and digits.
	//
	// +optional
	SandboxID string `json:"sandboxID,omitempty"`

	// Components are what there is of each component, in the order of the spec.
	//
	// +listType=map
	// +listMapKey=name
	// +optional
	Components []SandboxGroupComponentStatus `json:"components,omitempty"`
}

// SandboxGroupComponentStatus is what there is of one component.
type SandboxGroupComponentStatus struct {
	// Name of the component.
	Name string `json:"name"`

	// SourceRefDigest is a digest of the workload's group, kind, namespace and name. The frozen copy is used until it
	// changes.
	//
	// +optional
	SourceRefDigest string `json:"sourceRefDigest,omitempty"`

	// DeploymentName is the name of the Deployment on the runtime cluster.
	//
	// +optional
	DeploymentName string `json:"deploymentName,omitempty"`

	// ServiceName is the name of the Service on the runtime cluster.
	//
	// +optional
	ServiceName string `json:"serviceName,omitempty"`

	// ServicePorts are the port numbers of the Service.
	//
	// +listType=atomic
	// +optional
	ServicePorts []int32 `json:"servicePorts,omitempty"`

	// Replicas of the Deployment, when the group is not suspended.
	//
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Image of its first container.
	//
	// +optional
	Image string `json:"image,omitempty"`

	// Ready is true when all replicas of the Deployment are ready.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`

	// Snapshot is what was frozen of the workload.
	//
	// +optional
	Snapshot *WorkloadSnapshot `json:"snapshot,omitempty"`

	// Conditions are SourceResolved, Rendered, Applied and Ready.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadSnapshot is what tenants see of a frozen workload.
type WorkloadSnapshot struct {
	// Digest of all that was frozen.
	Digest string `json:"digest"`

	// Time at which the workload was frozen.
	//
	// +optional
	Time metav1.Time `json:"time,omitempty"`

	// Replicas that the workload had.
	//
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// ServicePorts are the ports of its containers, in the form of a Service's.
	//
	// +listType=atomic
	// +optional
	ServicePorts []corev1.ServicePort `json:"servicePorts,omitempty"`

	// Images are those of its containers and init containers, each once, in their order.
	//
	// +listType=atomic
	// +optional
	Images []string `json:"images,omitempty"`

	// Containers are the names of its containers and init containers, in their order.
	//
	// +listType=atomic
	// +optional
	Containers []string `json:"containers,omitempty"`

	// Template is the whole pod template, if the Baseline discloses it (disclosure: Template).
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
}
