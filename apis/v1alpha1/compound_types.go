// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// CompoundFields say that an instance of the kind may have a list of workloads in the place of its pod template. Such an
// instance is a compound one: it has nothing on the runtime cluster. The provider makes an instance of another kind for it,
// of the same name and in the same namespace, and the compound instance's status says how that one is. Sandbar adds the
// field baselineRef to the schema beside the list, and one for routing if RoutingFrom names it.
type CompoundFields struct {
	// From is the field of the tenant's spec: the list of the workloads. Sandbar adds it to the schema; the graph must not
	// have it.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9]*$`
	From string `json:"from"`

	// Template is the name of the Template whose instances are made: one of this provider's, with clones. While there is
	// none, compound instances wait and say so.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Template string `json:"template"`

	// RoutingFrom is the field of the tenant's spec that says which requests are led to the workloads. Sandbar adds it to the
	// schema; the graph must not have it. For an instance that has it the provider makes a SandboxRoute, too, of the same name.
	// Defaults to none: then instances have no routing.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9]*$`
	// +optional
	RoutingFrom string `json:"routingFrom,omitempty"`
}
