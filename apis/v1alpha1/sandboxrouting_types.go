// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// SandboxRouting says which requests are led to the workloads of a Sandbox. The provider makes a SandboxRoute of the same name
// that has the interceptions as its rules.
//
// +kubebuilder:validation:XValidation:rule="(self.provider == 'gateway') == has(self.gateway)",message="gateway is required with provider gateway, and refused with another"
// +kubebuilder:validation:XValidation:rule="(self.provider == 'istio') == has(self.istio)",message="istio is required with provider istio, and refused with another"
// +kubebuilder:validation:XValidation:rule="self.provider != 'proxy' || self.interceptions.all(i, has(i.targetService))",message="targetService of an interception is required with provider proxy"
// +kubebuilder:validation:XValidation:rule="self.interceptions.all(i, !has(i.matches) || i.matches.all(m, !has(m.headers) || m.headers.all(h, h.name.lowerAscii() != (has(self.key) ? self.key.headerName.lowerAscii() : 'baggage'))))",message="a match must not name the header of key.headerName: each match gets the ID of the Sandbox in it"
type SandboxRouting struct {
	// Provider is what routes the requests: gateway, a Gateway of the Gateway API; istio, a Gateway of Istio; proxy, a proxy
	// in front of the target Service. A change replaces the SandboxRoute.
	//
	// +kubebuilder:validation:Enum=gateway;istio;proxy
	Provider SandboxRouteProvider `json:"provider"`

	// Key says by which header requests are led. Defaults to the entry sandbox of baggage.
	//
	// +optional
	Key *SandboxRoutingKey `json:"key,omitempty"`

	// Gateway says at which Gateways and for which hostnames requests are routed. It is for provider gateway, and required
	// there.
	//
	// +optional
	Gateway *SandboxRouteGateway `json:"gateway,omitempty"`

	// Istio says the same for provider istio.
	//
	// +optional
	Istio *SandboxRouteIstio `json:"istio,omitempty"`

	// Interceptions say which requests that carry the ID of the Sandbox are led to which workload. Of two that match a
	// request, the more specific one counts, as the provider defines it.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Interceptions []SandboxInterception `json:"interceptions"`
}

// SandboxRoutingKey says by which header requests are led.
type SandboxRoutingKey struct {
	// HeaderName is the header that carries the ID. In baggage (W3C) it is the value of the entry sandbox, in another
	// header it is the whole value. Upper and lower case are the same. Defaults to baggage.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern="^[A-Za-z0-9!#$%&'*+.^_|~-]+$"
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().matches('^(host|authorization|cookie|connection|keep-alive|proxy-.*|te|trailer|upgrade|transfer-encoding|forwarded|content-.*|x-forwarded-.*|x-remote-.*|impersonate-.*)$')",message="is a header of the connection, of an identity or of the content, which cannot carry the ID; name one of your own, or baggage"
	// +kubebuilder:default=baggage
	// +optional
	HeaderName string `json:"headerName,omitempty"`
}

// SandboxInterception leads requests to a workload.
type SandboxInterception struct {
	// Name of the interception, and of the rule of the SandboxRoute.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// TargetService names the Service of the Baseline whose requests the interception is about. It is required with provider
	// proxy. With another one nothing depends on it: the hostnames and the matches say which requests are led.
	//
	// +optional
	TargetService *SandboxRouteService `json:"targetService,omitempty"`

	// Matches say which requests, of those that carry the ID: those that one of them matches. Defaults to all.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Matches []SandboxRouteMatch `json:"matches,omitempty"`

	// RouteTo is where the requests go.
	RouteTo SandboxRouteTarget `json:"routeTo"`
}

// SandboxRouteTarget is a port of a workload of the Sandbox.
type SandboxRouteTarget struct {
	// Workload is the name of a workload of the Sandbox.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Workload string `json:"workload"`

	// Port is the number or the name of a port of the workload's Service.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || int(self) >= 1 && int(self) <= 65535",message="must be a number from 1 to 65535, or the name of a port"
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Port intstr.IntOrString `json:"port"`
}

// SandboxEndpoint is an address at which requests that carry the routing key reach a workload of a Sandbox.
type SandboxEndpoint struct {
	// Name of the endpoint: that of the interception, with a number behind it for each further one.
	Name string `json:"name"`

	// URL of the endpoint. It is empty for a wildcard, which cannot be opened, and has no path for a regular expression.
	//
	// +optional
	URL string `json:"url,omitempty"`

	// Hostname is one of those of the routing; it may be a wildcard.
	Hostname string `json:"hostname"`

	// Path is that of a match, / for all paths, and empty for a regular expression.
	//
	// +optional
	Path string `json:"path,omitempty"`

	// Interception is the name of the interception.
	Interception string `json:"interception"`
}
