// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// SandboxWorkloadsSpec is what the spec of a Sandbox has in the place of a pod template: the workloads of a Baseline that it
// has copies of.
type SandboxWorkloadsSpec struct {
	// BaselineRef names the Baseline of the workloads. Defaults to the only one for the workspace that has a namespace with
	// the name of the object's.
	//
	// +optional
	BaselineRef *BaselineRef `json:"baselineRef,omitempty"`

	// Workloads are the copies, one Deployment with a Service each. The provider makes a SandboxGroup of the same name that
	// has them as its components.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Workloads []SandboxWorkload `json:"workloads"`

	// Routing says which requests are led to the workloads. Defaults to none: they are reached by their Services.
	//
	// +optional
	Routing *SandboxRouting `json:"routing,omitempty"`
}

// Types of a SandboxWorkload.
const (
	// WorkloadInherits: a copy of a workload of a Baseline.
	WorkloadInherits = "inherit"
)

// SandboxWorkload is one workload of a Sandbox.
type SandboxWorkload struct {
	// Name of the workload. It is part of the names of what is made of it: the names of the Sandbox and of the workload
	// have at most 58 characters together.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Type is inherit: a copy of a workload of the Baseline.
	//
	// +kubebuilder:validation:Enum=inherit
	Type string `json:"type"`

	// Inherit says which workload is copied, and what is different in the copy.
	Inherit InheritedWorkload `json:"inherit"`
}

// InheritedWorkload is a copy of a workload, with the fields of a SandboxGroupComponent but for its name.
type InheritedWorkload struct {
	// SourceRef names the workload. Its pod template is frozen when it is found first, and again when the reference
	// changes; what happens to the workload later changes no copy.
	SourceRef WorkloadReference `json:"sourceRef"`

	// Overrides change the copy field by field.
	//
	// +optional
	Overrides *WorkloadOverrides `json:"overrides,omitempty"`

	// PodTemplatePatch is a JSON patch (RFC 6902) of the pod template, applied after the overrides; see that of a component
	// of a SandboxGroup.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	PodTemplatePatch []PatchOperation `json:"podTemplatePatch,omitempty"`

	// Service changes the Service of the copy. Defaults to a Service with the ports of the workload's containers.
	//
	// +optional
	Service *SandboxGroupService `json:"service,omitempty"`
}

// Conditions of a Sandbox with workloads, in the order in which they come true; Suspended and Ready are those of every
// instance.
const (
	// SandboxApplied is true when the SandboxGroup, and the SandboxRoute if there is routing, say what the spec says.
	SandboxApplied = "Applied"
	// SandboxRendered is true when all workloads are rendered and ready, or rendered and suspended.
	SandboxRendered = "Rendered"
	// SandboxAttached is true when requests are routed as the spec says, or when it asks for no routing. Its reasons are
	// those of RouteAttachedCondition of the SandboxRoute.
	SandboxAttached = "Attached"
)

// SandboxWorkloadsStatus is what the status of a Sandbox with workloads has beside InstanceStatus.
type SandboxWorkloadsStatus struct {
	// RoutingKey is what a request has to carry to be routed to the copies.
	//
	// +optional
	RoutingKey *RoutingKey `json:"routingKey,omitempty"`

	// Endpoints are the addresses at which requests that carry the routing key reach the workloads, in the order of the
	// interceptions.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Endpoints []SandboxEndpoint `json:"endpoints,omitempty"`

	// UnderlyingRefs name the objects of the same namespace that the provider has made for the Sandbox.
	//
	// +optional
	UnderlyingRefs *SandboxUnderlyingRefs `json:"underlyingRefs,omitempty"`

	// Workloads are what there is of each workload, in the order of the spec.
	//
	// +listType=map
	// +listMapKey=name
	// +optional
	Workloads []SandboxWorkloadStatus `json:"workloads,omitempty"`
}

// DefaultRoutingHeader is the header whose entry sandbox=<value> routes a request.
const DefaultRoutingHeader = "baggage"

// RoutingKey is what a request has to carry to be routed to a Sandbox.
type RoutingKey struct {
	// HeaderName is the name of the header, in lower case. In baggage, the value is that of the entry sandbox, in another
	// header it is the whole value.
	HeaderName string `json:"headerName"`

	// Value is the ID of the SandboxGroup.
	Value string `json:"value"`
}

// SandboxUnderlyingRefs name objects.
type SandboxUnderlyingRefs struct {
	// SandboxGroupName is the name of the SandboxGroup.
	//
	// +optional
	SandboxGroupName string `json:"sandboxGroupName,omitempty"`

	// SandboxRouteName is the name of the SandboxRoute.
	//
	// +optional
	SandboxRouteName string `json:"sandboxRouteName,omitempty"`
}

// SandboxWorkloadStatus is what there is of one workload.
type SandboxWorkloadStatus struct {
	// Name of the workload.
	Name string `json:"name"`

	// Ready is true when all replicas of the copy are ready.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`

	// Replicas of the copy, when it is not suspended.
	//
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Image of its first container.
	//
	// +optional
	Image string `json:"image,omitempty"`
}
