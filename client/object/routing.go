// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Routing is what a request needs in order to be led to the copies of a sandbox.
type Routing struct {
	// Header and Value are a header of the request, without which it goes to the environment.
	Header, Value string
	// URLs are the addresses at which such requests begin, in their order. It is empty for a SandboxGroup, which has copies and
	// no routes, and while nothing leads requests.
	URLs []string
	// Attached is the condition that says whether requests are led; nil of an object that has none.
	Attached *metav1.Condition
}

// NotRoutedError means that no request can be led to the copies of an object, since it has none, or not yet.
type NotRoutedError struct {
	Kind, Name string
	// Reason says why, and what to do.
	Reason string
}

// Error implements error.
func (e *NotRoutedError) Error() string {
	return fmt.Sprintf("no request is led to %s %s: %s", e.Kind, e.Name, e.Reason)
}

// RoutingOf reads what requests need from the status of a Sandbox with workloads, a SandboxRoute or a SandboxGroup. The error is a
// [NotRoutedError].
func RoutingOf(obj *unstructured.Unstructured) (*Routing, error) {
	refused := func(reason string) error { return &NotRoutedError{obj.GetKind(), obj.GetName(), reason} }
	var status struct {
		RoutingKey *sandbarv1alpha1.RoutingKey `json:"routingKey"`
		SandboxID  string                      `json:"sandboxID"`
		Endpoints  []struct {
			URL string `json:"url"`
		} `json:"endpoints"`
		Conditions []metav1.Condition `json:"conditions"`
	}
	fields, _ := obj.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
		return nil, refused("its kind has no status of that form; name a Sandbox with workloads, a SandboxRoute or a SandboxGroup")
	}
	r := &Routing{Header: sandbarv1alpha1.DefaultRoutingHeader, Value: status.SandboxID}
	if key := status.RoutingKey; key != nil {
		r.Header, r.Value = key.HeaderName, key.Value
	} else if header, _, _ := unstructured.NestedString(obj.Object, "spec", "selectorHeaderName"); header != "" {
		r.Header = header
	}
	if r.Value == "" {
		return nil, refused("it has no ID in its status; a Sandbox without workloads never has one, and another one gets it with its copies")
	}
	if !headerName.MatchString(r.Header) || !headerValue.MatchString(r.Value) {
		return nil, refused("the header in its status cannot be one of a request")
	}
	r.Header = strings.ToLower(r.Header)
	if r.Header == sandbarv1alpha1.DefaultRoutingHeader {
		r.Value = "sandbox=" + r.Value
	}
	for _, e := range status.Endpoints {
		if e.URL != "" {
			r.URLs = append(r.URLs, e.URL)
		}
	}
	r.Attached = meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.RouteAttachedCondition)
	return r, nil
}

// What the provider writes goes into a command line, and into a request. The attack: a header with a line break in it, which
// would be two.
var (
	headerName  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_|~-]+$")
	headerValue = regexp.MustCompile("^[A-Za-z0-9-]+$")
)

// At returns the URL that a text means: a URL is that, and a path is one of the first address that the routing has. Empty means
// this address itself.
func (r *Routing) At(text string) (string, error) {
	if text != "" && !strings.HasPrefix(text, "/") {
		if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", fmt.Errorf("%q is neither a URL, such as https://shop.example.com/api, nor a path that begins with /", text)
		}
		return text, nil
	}
	if len(r.URLs) == 0 {
		return "", fmt.Errorf("its status has no address that can be opened: write the URL, such as https://shop.example.com%s", text)
	}
	first, err := url.Parse(r.URLs[0])
	if err != nil || first.Scheme != "http" && first.Scheme != "https" || first.Host == "" {
		return "", fmt.Errorf("the address %q in its status cannot be opened: write the URL", r.URLs[0])
	}
	if text == "" {
		return first.String(), nil
	}
	return first.Scheme + "://" + first.Host + text, nil
}
