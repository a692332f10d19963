// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Bounds of BaselineRouting.
const (
	// MaxBaselineParents and MaxBaselineHostnames are how many Gateways and hostnames a Baseline admits at most.
	MaxBaselineParents   = 16
	MaxBaselineHostnames = 64
)

// BaselineRouting says where tenants may have requests routed to their copies.
type BaselineRouting struct {
	// Gateway is for SandboxRoutes with provider gateway. Defaults to none, which refuses them.
	//
	// +optional
	Gateway BaselineGatewayRouting `json:"gateway,omitempty"`

	// Proxy is for SandboxRoutes with provider proxy. Defaults to disabled, which refuses them.
	//
	// +optional
	Proxy BaselineProxyRouting `json:"proxy,omitempty"`
}

// BaselineProxyRouting says whether tenants may have proxies put in front of the Services of a Baseline (spec.services).
type BaselineProxyRouting struct {
	// Enabled admits it. sandbar-provider baseline grant has to be run for the Baseline afterwards: it gives the controllers the
	// right to change Services of its namespaces, and takes it back when no Baseline there is enabled any more.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`
}

// BaselineGatewayRouting says which Gateways and hostnames tenants may name. Both lists have to have an entry for a route to
// be admitted.
type BaselineGatewayRouting struct {
	// ParentRefs are Gateways of the runtime cluster, or listeners of them. Their listeners have to admit routes of the
	// namespaces with the label app.kubernetes.io/managed-by=sandbar (allowedRoutes).
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	ParentRefs []BaselineParent `json:"parentRefs,omitempty"`

	// Hostnames are those that tenants may name. *.example.com admits all names below example.com, wildcards too, and not
	// example.com itself.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +listType=set
	// +optional
	Hostnames []string `json:"hostnames,omitempty"`
}

// BaselineParent is a Gateway of the runtime cluster, or a listener of one.
type BaselineParent struct {
	// Namespace of the Gateway on the runtime cluster.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`

	// Name of the Gateway.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// SectionName is the name of a listener. Defaults to all listeners.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	SectionName string `json:"sectionName,omitempty"`
}
