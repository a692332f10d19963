// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RouteAttachedCondition is the condition of a SandboxRoute: True when requests are led as the spec says.
const RouteAttachedCondition = "Attached"

// Reasons of RouteAttachedCondition.
const (
	// RouteAttached: requests are led as the spec says.
	RouteAttached = "RouteAttached"
	// RoutePending: the controller of a Gateway has not said yet whether it takes the route.
	RoutePending = "Pending"
	// RouteInvalidSpec: the spec is wrong, for any Baseline and group.
	RouteInvalidSpec = "InvalidSpec"
	// RouteNotAllowed: the Baseline does not admit a Gateway, a hostname or a Service that the spec names.
	RouteNotAllowed = "NotAllowed"
	// RouteProviderUnavailable: the runtime cluster lacks what the provider needs, or it is not enabled.
	RouteProviderUnavailable = "ProviderUnavailable"
	// RouteResolveFailed: a group, component, Service or port that the spec names is not there.
	RouteResolveFailed = "ResolveFailed"
	// RouteAttachFailed: the controller of the Gateway does not take the route; the message has its words.
	RouteAttachFailed = "AttachFailed"
	// RouteOwnershipConflict: another writer has what the route would write.
	RouteOwnershipConflict = "OwnershipConflict"
	// RouteShadowed: routes of others take requests of a rule. The condition is False only if that holds for all rules.
	RouteShadowed = "Shadowed"
	// RouteProxyNotReady: the proxies in front of a Service do not run, and its requests go to its own pods.
	RouteProxyNotReady = "ProxyNotReady"
	// RouteSuspended: the group is suspended, and a proxy sends its requests to the Service's own pods.
	RouteSuspended = "Suspended"
)

// MaxSandboxRouteEndpoints is how many entries SandboxRouteStatus.Endpoints has at most.
const MaxSandboxRouteEndpoints = 64

// MaxSandboxRouteShadowed is how many entries SandboxRouteStatus.Shadowed has at most.
const MaxSandboxRouteShadowed = 64

// SandboxRouteStatus says whether requests are led as the spec says.
type SandboxRouteStatus struct {
	// ObservedGeneration is the generation that the rest speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// SandboxID is what requests have to carry: sbx- and eight letters and digits.
	//
	// +optional
	SandboxID string `json:"sandboxID,omitempty"`

	// Provider is what routes the requests.
	//
	// +optional
	Provider SandboxRouteProvider `json:"provider,omitempty"`

	// AttachedResource is the object of the runtime cluster that has the rules, or the first of them: with provider proxy the
	// Service in front of which the proxies are, in the namespace by the alias that the Baseline gives it.
	//
	// +optional
	AttachedResource *SandboxRouteResource `json:"attachedResource,omitempty"`

	// Hostnames are those for which requests are routed.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Hostnames []string `json:"hostnames,omitempty"`

	// Endpoints are the addresses at which requests that carry the ID reach the backends of the rules: of each rule, hostname
	// and path one, in their order, and 64 at most.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Endpoints []SandboxRouteEndpoint `json:"endpoints,omitempty"`

	// Shadowed are rules whose requests other routes take, in part or altogether.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Shadowed []SandboxRouteShadow `json:"shadowed,omitempty"`

	// Conditions are Attached.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SandboxRouteResource names an object of the runtime cluster.
type SandboxRouteResource struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// SandboxRouteEndpoint is an address at which requests of a rule begin.
type SandboxRouteEndpoint struct {
	// Rule is the name of the rule.
	Rule string `json:"rule"`

	// URL of the endpoint: https, unless all listeners that take its requests are of HTTP. It is empty for a wildcard, which
	// cannot be opened, and has no path for a regular expression.
	//
	// +optional
	URL string `json:"url,omitempty"`

	// Hostname is one of those of the route; it may be a wildcard.
	Hostname string `json:"hostname"`

	// Path is that of a match, / for all paths, and empty for a regular expression.
	//
	// +optional
	Path string `json:"path,omitempty"`
}

// SandboxRouteShadow is a rule of which another route takes requests.
type SandboxRouteShadow struct {
	// Rule is the name of the rule.
	Rule string `json:"rule"`

	// By is the other route, as namespace/name on the runtime cluster.
	By string `json:"by"`

	// Message says which requests it takes, and what to do.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}
