// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// GatewayGroup is the API group of the Gateway API.
const GatewayGroup = "gateway.networking.k8s.io"

// The kinds of the Gateway API that are written. ReferenceGrants are of v1beta1, which each release has.
var (
	HTTPRouteGVK      = schema.GroupVersionKind{Group: GatewayGroup, Version: "v1", Kind: "HTTPRoute"}
	ReferenceGrantGVK = schema.GroupVersionKind{Group: GatewayGroup, Version: "v1beta1", Kind: "ReferenceGrant"}
)

// What of an HTTPRoute is written and read. A field of the Gateway API that is not here is left out when it is written, and
// makes no difference to which requests a route takes when it is read.
type (
	httpRoute struct {
		Spec httpRouteSpec `json:"spec"`
	}

	httpRouteSpec struct {
		ParentRefs []parentRef `json:"parentRefs,omitempty"`
		Hostnames  []string    `json:"hostnames,omitempty"`
		Rules      []httpRule  `json:"rules,omitempty"`
	}

	parentRef struct {
		Group       string `json:"group,omitempty"`
		Kind        string `json:"kind,omitempty"`
		Namespace   string `json:"namespace,omitempty"`
		Name        string `json:"name"`
		SectionName string `json:"sectionName,omitempty"`
		Port        int32  `json:"port,omitempty"`
	}

	httpRule struct {
		// The match of a SandboxRoute has the form of an HTTPRoute's.
		Matches     []sandbarv1alpha1.SandboxRouteMatch `json:"matches,omitempty"`
		BackendRefs []backendRef                        `json:"backendRefs,omitempty"`
	}

	backendRef struct {
		Group     string `json:"group"`
		Kind      string `json:"kind"`
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name"`
		Port      int32  `json:"port"`
		Weight    int32  `json:"weight"`
	}

	grantSpec struct {
		From []grantFrom `json:"from"`
		To   []grantTo   `json:"to"`
	}

	grantFrom struct {
		Group     string `json:"group"`
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
	}

	grantTo struct {
		Group string `json:"group"`
		Kind  string `json:"kind"`
		Name  string `json:"name"`
	}
)

// The kinds that routes refer to.
const (
	kindGateway = "Gateway"
	kindService = "Service"
)

// object is an object of a kind with a spec.
func object(gvk schema.GroupVersionKind, meta metav1.ObjectMeta, spec any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		Spec any `json:"spec"`
	}{spec})
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s/%s: %w", gvk.Kind, meta.Namespace, meta.Name, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(meta.Namespace)
	u.SetName(meta.Name)
	u.SetLabels(meta.Labels)
	u.SetAnnotations(meta.Annotations)
	return u, nil
}

// parse reads an HTTPRoute.
func parse(u *unstructured.Unstructured) (*httpRouteSpec, error) {
	route := &httpRoute{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, route); err != nil {
		return nil, fmt.Errorf("reading HTTPRoute %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return &route.Spec, nil
}
