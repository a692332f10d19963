// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Bounds of a SandboxRoute. Package route asks for them again, since a CRD can be edited.
const (
	// MaxSandboxRouteRules is how many rules a route has at most, and MaxSandboxRouteMatches how many matches a rule has.
	MaxSandboxRouteRules   = 32
	MaxSandboxRouteMatches = 16
	// MaxSandboxRouteHeaders and MaxSandboxRouteQueryParams are how many of each a match has at most. The Gateway API has 16
	// headers, and one of them is the selector.
	MaxSandboxRouteHeaders     = 15
	MaxSandboxRouteQueryParams = 16
	// MaxSandboxRouteBackends is how many backends a rule has at most.
	MaxSandboxRouteBackends = 8
	// MaxSandboxRouteWeight is the largest weight of a backend.
	MaxSandboxRouteWeight = 1_000_000
	// MaxSandboxRouteParents and MaxSandboxRouteHostnames are how many Gateways and hostnames a route names at most.
	MaxSandboxRouteParents   = 16
	MaxSandboxRouteHostnames = 16
)

// SandboxRoute leads requests that carry the ID of a SandboxGroup to the copies of the group, or to Services of the Baseline. All
// other requests go where they went before.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=sbrt,categories=sandbar
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="Hostnames",type=string,JSONPath=`.status.hostnames`
// +kubebuilder:printcolumn:name="Attached",type=string,JSONPath=`.status.conditions[?(@.type=="Attached")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Attached")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SandboxRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which requests are led where.
	Spec SandboxRouteSpec `json:"spec"`
	// Status says whether they are. The provider writes it.
	Status SandboxRouteStatus `json:"status,omitempty"`
}

// SandboxRouteList is a list of SandboxRoutes.
//
// +kubebuilder:object:root=true
type SandboxRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SandboxRoute `json:"items"`
}

// SandboxRouteSpec says which requests are led where, and by what.
//
// +kubebuilder:validation:XValidation:rule="(self.provider == 'gateway') == has(self.gateway)",message="gateway is required with provider gateway, and refused with another"
// +kubebuilder:validation:XValidation:rule="(self.provider == 'istio') == has(self.istio)",message="istio is required with provider istio, and refused with another"
// +kubebuilder:validation:XValidation:rule="self.rules.all(r, (self.provider == 'proxy') == has(r.targetServiceRef))",message="targetServiceRef of a rule is required with provider proxy, and refused with another"
// +kubebuilder:validation:XValidation:rule="has(self.sandboxGroupRef) || self.rules.all(r, r.backends.all(b, !has(b.component)))",message="sandboxGroupRef is required for a backend that is a component"
// +kubebuilder:validation:XValidation:rule="self.rules.all(r, !has(r.matches) || r.matches.all(m, !has(m.headers) || m.headers.all(h, h.name.lowerAscii() != self.selectorHeaderName.lowerAscii())))",message="a match must not name the header of selectorHeaderName: each match gets the ID of the group in it"
type SandboxRouteSpec struct {
	// SandboxGroupRef names the group, of the same namespace, whose ID the requests carry. It is required for backends that
	// are components.
	//
	// +optional
	SandboxGroupRef *SandboxGroupReference `json:"sandboxGroupRef,omitempty"`

	// Provider is what routes the requests: gateway, a Gateway of the Gateway API; istio, a Gateway of Istio; proxy, a proxy
	// in front of the target Service.
	//
	// +kubebuilder:validation:Enum=gateway;istio;proxy
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="does not change; create another SandboxRoute"
	Provider SandboxRouteProvider `json:"provider"`

	// SelectorHeaderName is the header that carries the ID. In baggage (W3C) it is the value of the entry sandbox, in another
	// header it is the whole value. Upper and lower case are the same. Defaults to baggage.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern="^[A-Za-z0-9!#$%&'*+.^_|~-]+$"
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().matches('^(host|authorization|cookie|connection|keep-alive|proxy-.*|te|trailer|upgrade|transfer-encoding|forwarded|content-.*|x-forwarded-.*|x-remote-.*|impersonate-.*)$')",message="is a header of the connection, of an identity or of the content, which cannot carry the ID; name one of your own, or baggage"
	// +kubebuilder:default=baggage
	// +optional
	SelectorHeaderName string `json:"selectorHeaderName,omitempty"`

	// Gateway says at which Gateways and for which hostnames requests are routed. It is for provider gateway, and required
	// there.
	//
	// +optional
	Gateway *SandboxRouteGateway `json:"gateway,omitempty"`

	// Istio says the same for provider istio.
	//
	// +optional
	Istio *SandboxRouteIstio `json:"istio,omitempty"`

	// Rules say which requests that carry the ID are led where. Of two rules that match a request, the more specific one
	// counts, as the provider defines it.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Rules []SandboxRouteRule `json:"rules"`
}

// SandboxGroupReference names a SandboxGroup of the same namespace.
type SandboxGroupReference struct {
	// Name of the SandboxGroup.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// SandboxRouteProvider is what routes requests.
type SandboxRouteProvider string

// What routes requests.
const (
	RouteByGateway SandboxRouteProvider = "gateway"
	RouteByIstio   SandboxRouteProvider = "istio"
	RouteByProxy   SandboxRouteProvider = "proxy"
)

// SandboxRouteGateway says at which Gateways and for which hostnames requests are routed.
type SandboxRouteGateway struct {
	// ParentRefs name Gateways of the runtime cluster, of those that the Baseline admits (spec.routing.gateway.parentRefs).
	// One that is named twice has another sectionName each time.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.__namespace__ == b.__namespace__ && a.name == b.name && (has(a.sectionName) ? a.sectionName : '') == (has(b.sectionName) ? b.sectionName : '')))",message="two parentRefs must not name the same Gateway and sectionName"
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.all(b, a.__namespace__ != b.__namespace__ || a.name != b.name || has(a.sectionName) == has(b.sectionName)))",message="of two parentRefs with the same Gateway, both or neither must have a sectionName"
	// +listType=atomic
	ParentRefs []SandboxRouteParent `json:"parentRefs"`

	// Hostnames are those for which requests are routed, of those that the Baseline admits (spec.routing.gateway.hostnames).
	// *.example.com means all names below example.com, and not example.com itself.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +listType=set
	Hostnames []string `json:"hostnames"`
}

// SandboxRouteParent names a Gateway of the runtime cluster, or one of its listeners.
type SandboxRouteParent struct {
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

	// SectionName is the name of a listener. Defaults to all listeners that take the route.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	SectionName string `json:"sectionName,omitempty"`

	// Port narrows the listeners to those of a port. Defaults to any. Not every Gateway controller can.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
}

// SandboxRouteIstio says at which Gateways of Istio and for which hosts requests are routed.
type SandboxRouteIstio struct {
	// Gateways of Istio, as namespace/name.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +listType=set
	Gateways []string `json:"gateways"`

	// Hosts for which requests are routed.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Hosts []string `json:"hosts"`
}

// SandboxRouteRule leads the requests that match to its backends.
type SandboxRouteRule struct {
	// Name of the rule.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// TargetServiceRef names the Service of the Baseline whose requests the rule is about. It is for provider proxy, and
	// required there.
	//
	// +optional
	TargetServiceRef *SandboxRouteService `json:"targetServiceRef,omitempty"`

	// Matches say which requests, of those that carry the ID: those that one of them matches. Defaults to all.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Matches []SandboxRouteMatch `json:"matches,omitempty"`

	// Backends get the requests, each in proportion to its weight.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.exists(b, !has(b.weight) || b.weight > 0)",message="at least one weight must be above 0"
	// +listType=atomic
	Backends []SandboxRouteBackend `json:"backends"`
}

// SandboxRouteService names a Service of the Baseline.
type SandboxRouteService struct {
	// Name of the Service.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Namespace is the alias that the Baseline gives to the Service's namespace. Defaults to the namespace of the route.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// SandboxRouteBackend is where requests go.
//
// +kubebuilder:validation:XValidation:rule="has(self.component) != has(self.service)",message="exactly one of component and service is required"
type SandboxRouteBackend struct {
	// Component is a component of the group.
	//
	// +optional
	Component *SandboxRouteComponentBackend `json:"component,omitempty"`

	// Service is a Service of the Baseline.
	//
	// +optional
	Service *SandboxRouteServiceBackend `json:"service,omitempty"`

	// Weight is the backend's part of the requests: it gets weight out of the sum of all weights of the rule. 0 gets none.
	// Defaults to 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=1
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// SandboxRouteComponentBackend is a port of a component of the group.
type SandboxRouteComponentBackend struct {
	// Name of the component.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Port is the number or the name of a port of the component's Service.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || int(self) >= 1 && int(self) <= 65535",message="must be a number from 1 to 65535, or the name of a port"
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Port intstr.IntOrString `json:"port"`
}

// SandboxRouteServiceBackend is a port of a Service of the Baseline.
type SandboxRouteServiceBackend struct {
	SandboxRouteService `json:",inline"`

	// Port is the number or the name of a port of the Service.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || int(self) >= 1 && int(self) <= 65535",message="must be a number from 1 to 65535, or the name of a port"
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Port intstr.IntOrString `json:"port"`
}

func init() { builtInTypes = append(builtInTypes, &SandboxRoute{}, &SandboxRouteList{}) }
