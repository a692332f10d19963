// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Limits bound what callers may use of the data plane, and how many instances are placed.
type Limits struct {
	DataPlaneLimits `json:",inline"`
	PlacementLimits `json:",inline"`
}

// Defaults of PlacementLimits.
const (
	DefaultInstancesPerWorkspace = 100
	DefaultPlacements            = 10000
	DefaultSetReplicas           = 100
)

// PlacementLimits bound how many instances are placed on the runtime cluster. Who is above a
// limit waits, in the phase PendingCapacity, and is placed when there is room; what is placed
// stays when a limit is lowered. Zero places nothing new.
type PlacementLimits struct {
	// InstancesPerWorkspace is how many instances one workspace has on the runtime cluster, of
	// all kinds together; the oldest come first. Defaults to 100.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	InstancesPerWorkspace *int32 `json:"instancesPerWorkspace,omitempty"`

	// Placements is how many instances of all workspaces together are on the runtime cluster.
	// Each is a Namespace, of which a cluster bears so many. Defaults to 10000.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Placements *int32 `json:"placements,omitempty"`

	// SetReplicas is how many unused sandboxes one SandboxSet keeps at most, also if it says more. They count
	// as instances of their workspace. Defaults to 100.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	SetReplicas *int32 `json:"setReplicas,omitempty"`
}
