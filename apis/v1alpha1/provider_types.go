// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
// +kubebuilder:printcolumn:name="Policies",type=string,JSONPath=`.status.conditions[?(@.type=="NetworkPolicyEnforced")].status`,description="Whether network policies are enforced"
// +kubebuilder:printcolumn:name="DNS",type=string,JSONPath=`.status.conditions[?(@.type=="DNSReachable")].status`,description="Whether sandboxes can resolve names"
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

	// Limits bound what callers may use of the data plane and how many instances are placed.
	// What is not set has its default.
	//
	// +optional
	Limits *Limits `json:"limits,omitempty"`

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

	// Quota bounds each placement and what its pods may ask for.
	//
	// +optional
	Quota Quota `json:"quota,omitempty"`

	// PlacementClasses are the kinds of places that a SandboxTemplate or a SandboxSet may name for its pods.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(name) <= 63 && name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",message="the name of a placement class has lower-case letters, digits and dashes, 63 at most"
	// +optional
	PlacementClasses map[string]PlacementClass `json:"placementClasses,omitempty"`

	// Rollout says how changes reach instances that run. A Template can say otherwise.
	//
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// InstanceMetadata says which labels and annotations of a tenant's object reach its
	// placement. Reserved prefixes (sandbar.dev, kubernetes.io, k8s.io, kro.run, kcp.io and
	// their subdomains) never do.
	//
	// +optional
	InstanceMetadata InstanceMetadata `json:"instanceMetadata,omitempty"`
}

// DataPlaneAddress is the public address of the data plane.
type DataPlaneAddress struct {
	// URL is the public base URL of the data plane: https://HOST[:PORT][/PATH], without a trailing slash. Clients append the
	// path of an instance, and call no address that they cannot tell from that of another instance: a path has no percent
	// sign, and none of its segments is empty, ".", ".." or "clusters".
	//
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^https://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[^/?#%\\\x00-\x20\x7f]+)*$')`,message="must be https://HOST[:PORT][/PATH]: without a user, a query, a fragment, a percent sign, a backslash, a space, two slashes in the path or a slash at its end"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^https://[^/]+/(.*/)?([.][.]?|clusters)(/.*)?$')`,message="must not have ., .. or clusters as a segment of its path, which clients refuse: serve the data plane under another path"
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

	// PreviewSessionSeconds is how long a browser may use a preview before it needs another link.
	// A browser holds no token, so until then the data plane uses the name and the groups that the
	// user had when the link was made: a user who has left a group, and a service account that was
	// deleted, keep their access for that long. No session outlives the token that the link was
	// requested with.
	// Defaults to 900.
	//
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=43200
	// +optional
	PreviewSessionSeconds int32 `json:"previewSessionSeconds,omitempty"`
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

	// DNS is where sandboxes resolve names, which both policies allow. sandbar-provider init sets it
	// to what it finds on the runtime cluster, unless somebody else has set a field of it. Defaults
	// to the pods k8s-app=kube-dns of kube-system at port 53.
	//
	// +optional
	DNS *EgressDNS `json:"dns,omitempty"`
}

// Quota bounds a placement and what its pods may ask for. What is not set has its default
// (docs/operating.md). Values that contradict each other are reported in the condition
// PlatformPublished, and nothing is placed until they are corrected.
type Quota struct {
	// Hard is the ResourceQuota of each placement. A tenant's pod may name cpu, memory and
	// ephemeral-storage, and each further resource that is listed here as requests.<name>, for
	// example requests.nvidia.com/gpu.
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

	// Min is the least that a container may request and be limited to: of cpu, memory and
	// ephemeral-storage. It is above zero, because zero means without a limit to a node.
	//
	// +optional
	Min corev1.ResourceList `json:"min,omitempty"`

	// Max is the highest limit of one container. Defaults to the limits.<name> of Hard.
	//
	// +optional
	Max corev1.ResourceList `json:"max,omitempty"`

	// PodMax is the highest limit of all containers of one pod together. Defaults to the
	// limits.<name> of Hard.
	//
	// +optional
	PodMax corev1.ResourceList `json:"podMax,omitempty"`

	// Volume bounds the size of each persistent volume.
	//
	// +optional
	Volume VolumeBounds `json:"volume,omitempty"`

	// EmptyDir bounds the emptyDir volumes of tenants' own pod templates.
	//
	// +optional
	EmptyDir EmptyDirBounds `json:"emptyDir,omitempty"`
}

// VolumeBounds bound the size of each persistent volume.
type VolumeBounds struct {
	// Min defaults to 1Mi.
	//
	// +optional
	Min *resource.Quantity `json:"min,omitempty"`

	// Max defaults to the requests.storage of Quota.Hard.
	//
	// +optional
	Max *resource.Quantity `json:"max,omitempty"`
}

// EmptyDirBounds bound the sizeLimit of emptyDir volumes.
type EmptyDirBounds struct {
	// Default is the sizeLimit of one that names none. Defaults to 4Gi.
	//
	// +optional
	Default *resource.Quantity `json:"default,omitempty"`

	// Max defaults to 8Gi.
	//
	// +optional
	Max *resource.Quantity `json:"max,omitempty"`

	// MemoryDefault is the sizeLimit of one with the medium Memory that names none. Defaults
	// to 256Mi.
	//
	// +optional
	MemoryDefault *resource.Quantity `json:"memoryDefault,omitempty"`

	// MemoryMax is the highest sizeLimit of one with the medium Memory. What is in it counts
	// as memory of the containers that wrote it as well. Defaults to 1Gi.
	//
	// +optional
	MemoryMax *resource.Quantity `json:"memoryMax,omitempty"`
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
	// ProviderComposing is true when kro composes a small instance of the provider's own in time.
	ProviderComposing = "Composing"
	// ProviderUnusedEnds is true when unused instances are put to sleep and deleted as their
	// lifecycles say. It is false while a replica of the data plane or a clock makes that unsafe:
	// the reason says which. Instances serve regardless.
	ProviderUnusedEnds = "UnusedEnds"
	// ProviderReady sums up RuntimeReachable, PlatformPublished and Composing.
	ProviderReady = "Ready"
	// ProviderNetworkPolicyEnforced is true when pods on the runtime cluster are kept apart as
	// network policies say, false when they are not, and unknown while that could not be tried.
	// Ready does not depend on it.
	ProviderNetworkPolicyEnforced = "NetworkPolicyEnforced"
	// ProviderDNSReachable is true when a pod under the egress policy of placements resolves a name,
	// false when it does not, and unknown while that could not be tried. Ready does not depend on it.
	ProviderDNSReachable = "DNSReachable"
)

// InfrastructureProviderStatus is the state of the provider.
type InfrastructureProviderStatus struct {
	// ObservedGeneration is the generation that the conditions speak of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are RuntimeReachable, PlatformPublished, Composing, UnusedEnds, NetworkPolicyEnforced,
	// DNSReachable and Ready.
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

	// NotComposingSince is when kro was last seen to compose, while it does not.
	//
	// +optional
	NotComposingSince *metav1.Time `json:"notComposingSince,omitempty"`
}
