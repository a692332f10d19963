// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InfrastructureProviderName is the name of the only InfrastructureProvider.
const InfrastructureProviderName = "default"

// InfrastructureProvider is what the operator sets for the whole provider. There is one,
// named "default". What graphs need of it is written to the ConfigMap sandbar-platform on
// the runtime cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=infra,categories=sandbar
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="the only InfrastructureProvider is named default"
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.dataPlane.url`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Kubernetes",type=string,JSONPath=`.status.runtime.kubernetesVersion`
// +kubebuilder:printcolumn:name="kro",type=string,JSONPath=`.status.runtime.kroVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type InfrastructureProvider struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:Required
	Spec   InfrastructureProviderSpec   `json:"spec"`
	Status InfrastructureProviderStatus `json:"status,omitempty"`
}

// InfrastructureProviderList is a list of InfrastructureProviders.
//
// +kubebuilder:object:root=true
type InfrastructureProviderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []InfrastructureProvider `json:"items"`
}

// InfrastructureProviderSpec is the operator's configuration.
type InfrastructureProviderSpec struct {
	// DataPlane is where tenants reach the verbs.
	DataPlane DataPlaneAddress `json:"dataPlane"`

	// Limits bound what callers may use of the data plane. What is not set has its default.
	//
	// +optional
	Limits *DataPlaneLimits `json:"limits,omitempty"`

	// Preview is how previews get host names of their own. Without it no routes are made.
	//
	// +optional
	Preview *Preview `json:"preview,omitempty"`

	// Images maps a key that graphs use (for example "runner" or "node") to an image. They are
	// the operator's choice, never a tenant's.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Images map[string]string `json:"images,omitempty"`

	// Isolation is how placements are kept from each other and from the rest.
	//
	// +optional
	Isolation Isolation `json:"isolation,omitempty"`

	// Quota bounds each placement.
	//
	// +optional
	Quota Quota `json:"quota,omitempty"`

	// InstanceMetadata says which labels and annotations of a tenant's object reach its
	// placement. Reserved prefixes (sandbar.dev, kubernetes.io, k8s.io, kro.run, kcp.io and
	// their subdomains) never do.
	//
	// +optional
	InstanceMetadata InstanceMetadata `json:"instanceMetadata,omitempty"`
}

// DataPlaneAddress is the public address of the data plane.
type DataPlaneAddress struct {
	// URL is the public base URL of the data plane, without a trailing slash.
	//
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https://[^/?#]+(/[^?#]*[^/?#])?$`
	URL string `json:"url"`

	// CABundle is the PEM bundle that a client needs to verify URL. Empty means that the
	// certificate chains to a public root.
	//
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`

	// PreviewDomain is the domain below which the data plane serves previews, each instance on
	// a host name of its own: a host name, with a port if it is not 443. Empty means that
	// there are no preview links.
	//
	// +kubebuilder:validation:MaxLength=190
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?$`
	// +optional
	PreviewDomain string `json:"previewDomain,omitempty"`
}

// Preview is how previews are published.
type Preview struct {
	// BaseDomain is the domain under which every instance gets a host name.
	//
	// +kubebuilder:validation:MaxLength=190
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	BaseDomain string `json:"baseDomain"`

	// GatewayRef is the Gateway (gateway.networking.k8s.io) that carries the routes.
	//
	// +optional
	GatewayRef *GatewayReference `json:"gatewayRef,omitempty"`
}

// GatewayReference names a Gateway on the runtime cluster.
type GatewayReference struct {
	// Name of the Gateway.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Namespace of the Gateway.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
}

// Isolation keeps placements apart.
type Isolation struct {
	// RuntimeClassName is the RuntimeClass of sandboxes (gVisor, Kata, …). Empty means the
	// cluster's default runtime.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// PodSecurity is the pod security level that each placement's namespace enforces.
	//
	// +kubebuilder:validation:Enum=restricted;baseline;privileged
	// +kubebuilder:default=restricted
	// +optional
	PodSecurity string `json:"podSecurity,omitempty"`

	// ProviderCIDRs are addresses from which the provider reaches pods when it does not run
	// on the runtime cluster itself. In the cluster it is admitted by its namespace and label.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F.:]+/[0-9]{1,3}$`
	// +optional
	ProviderCIDRs []string `json:"providerCIDRs,omitempty"`

	// Egress is what sandboxes may reach.
	//
	// +optional
	Egress Egress `json:"egress,omitempty"`
}

// Egress is what sandboxes may reach.
type Egress struct {
	// Policy is Public (DNS, and the internet without private, link-local and metadata
	// addresses) or None (DNS only). Defaults to Public.
	//
	// +kubebuilder:validation:Enum=Public;None
	// +kubebuilder:default=Public
	// +optional
	Policy string `json:"policy,omitempty"`

	// DeniedCIDRs are denied besides the private, link-local and metadata ranges: name here
	// the cluster's own networks if they are public addresses.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F.:]+/[0-9]{1,3}$`
	// +optional
	DeniedCIDRs []string `json:"deniedCIDRs,omitempty"`
}

// Quota bounds a placement.
type Quota struct {
	// Hard is the ResourceQuota of each placement. Defaults are set by the provider for what
	// is not named; see docs/operating.md.
	//
	// +optional
	Hard corev1.ResourceList `json:"hard,omitempty"`

	// DefaultRequest is what a container requests that names nothing.
	//
	// +optional
	DefaultRequest corev1.ResourceList `json:"defaultRequest,omitempty"`

	// DefaultLimit is the limit of a container that names none.
	//
	// +optional
	DefaultLimit corev1.ResourceList `json:"defaultLimit,omitempty"`
}

// InstanceMetadata is the allow-list of a tenant's labels and annotations.
type InstanceMetadata struct {
	// LabelPrefixes are key prefixes of labels that are copied, for example "app.example.com/".
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	LabelPrefixes []string `json:"labelPrefixes,omitempty"`

	// AnnotationPrefixes are key prefixes of annotations that are copied.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	AnnotationPrefixes []string `json:"annotationPrefixes,omitempty"`
}

// Conditions of the InfrastructureProvider.
const (
	// ProviderRuntimeReachable is true when the runtime cluster answers and kro serves it.
	ProviderRuntimeReachable = "RuntimeReachable"
	// ProviderPlatformPublished is true when the platform ConfigMap and the export's
	// annotations say what the spec says.
	ProviderPlatformPublished = "PlatformPublished"
	// ProviderReady sums up the others.
	ProviderReady = "Ready"
)

// InfrastructureProviderStatus is the state of the provider.
type InfrastructureProviderStatus struct {
	// ObservedGeneration is the generation that the conditions speak of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are RuntimeReachable, PlatformPublished and Ready.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Runtime is what the provider knows of its runtime cluster.
	//
	// +optional
	Runtime RuntimeStatus `json:"runtime,omitempty"`
}

// RuntimeStatus describes the runtime cluster.
type RuntimeStatus struct {
	// Reachable says whether the API server answered at the last look.
	Reachable bool `json:"reachable"`

	// KubernetesVersion is the version that the API server tells.
	//
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// KroVersion is the version of kro, as its objects tell it.
	//
	// +optional
	KroVersion string `json:"kroVersion,omitempty"`
}
