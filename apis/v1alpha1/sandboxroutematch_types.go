// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// SandboxRouteMatch matches requests for which all of it holds. It has the fields and the meaning of a match of an HTTPRoute
// (Gateway API).
type SandboxRouteMatch struct {
	// Path of the request. Defaults to all paths.
	//
	// +optional
	Path *SandboxRoutePathMatch `json:"path,omitempty"`

	// Headers that the request has to have, in addition to the one of selectorHeaderName, each name once. Upper and lower
	// case of a name are the same.
	//
	// +kubebuilder:validation:MaxItems=15
	// +listType=map
	// +listMapKey=name
	// +optional
	Headers []SandboxRouteHeaderMatch `json:"headers,omitempty"`

	// QueryParams are parameters of the query that the request has to have, each name once.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	QueryParams []SandboxRouteQueryParamMatch `json:"queryParams,omitempty"`

	// Method of the request. Defaults to all methods.
	//
	// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;DELETE;CONNECT;OPTIONS;TRACE;PATCH
	// +optional
	Method string `json:"method,omitempty"`
}

// SandboxRoutePathMatch matches the path of a request.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'RegularExpression' || self.value.matches('^/([-A-Za-z0-9/._~!$&()*+,;=:@\\']|%[0-9a-fA-F]{2})*$')",message="value must begin with / and have only characters of a path, others as %20"
// +kubebuilder:validation:XValidation:rule="self.type == 'RegularExpression' || !self.value.matches('//|/[.][.]?/|/[.][.]?$|%2[fF]')",message="value must not contain //, /./, /../ or %2F, nor end with /. or /.."
type SandboxRoutePathMatch struct {
	// Type is Exact, PathPrefix (whole elements: /a matches /a/b, and not /ab) or RegularExpression, whose order among other
	// rules is up to the Gateway. Defaults to PathPrefix.
	//
	// +kubebuilder:validation:Enum=Exact;PathPrefix;RegularExpression
	// +kubebuilder:default=PathPrefix
	// +optional
	Type SandboxRoutePathType `json:"type,omitempty"`

	// Value is compared with the path. Defaults to /.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern="^[^\\x00-\\x1f\\x7f\\x60]*$"
	// +kubebuilder:default="/"
	// +optional
	Value string `json:"value,omitempty"`
}

// SandboxRoutePathType is how a path is compared.
type SandboxRoutePathType string

// How a path is compared.
const (
	RoutePathExact      SandboxRoutePathType = "Exact"
	RoutePathPrefix     SandboxRoutePathType = "PathPrefix"
	RoutePathExpression SandboxRoutePathType = "RegularExpression"
)

// SandboxRouteHeaderMatch matches a header of a request.
type SandboxRouteHeaderMatch struct {
	// Type is Exact or RegularExpression. Defaults to Exact.
	//
	// +kubebuilder:validation:Enum=Exact;RegularExpression
	// +kubebuilder:default=Exact
	// +optional
	Type SandboxRouteValueType `json:"type,omitempty"`

	// Name of the header.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern="^[A-Za-z0-9!#$%&'*+.^_|~-]+$"
	Name string `json:"name"`

	// Value is compared with that of the header.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern="^[^\\x00-\\x1f\\x7f\\x60]*$"
	Value string `json:"value"`
}

// SandboxRouteQueryParamMatch matches a parameter of the query of a request.
type SandboxRouteQueryParamMatch struct {
	// Type is Exact or RegularExpression. Defaults to Exact.
	//
	// +kubebuilder:validation:Enum=Exact;RegularExpression
	// +kubebuilder:default=Exact
	// +optional
	Type SandboxRouteValueType `json:"type,omitempty"`

	// Name of the parameter.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern="^[A-Za-z0-9!#$%&'*+.^_|~-]+$"
	Name string `json:"name"`

	// Value is compared with that of the parameter.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern="^[^\\x00-\\x1f\\x7f\\x60]*$"
	Value string `json:"value"`
}

// SandboxRouteValueType is how a value is compared.
type SandboxRouteValueType string

// How a value is compared.
const (
	RouteValueExact      SandboxRouteValueType = "Exact"
	RouteValueExpression SandboxRouteValueType = "RegularExpression"
)
