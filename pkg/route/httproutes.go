// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Input is what the HTTPRoutes of a SandboxRoute are made of.
type Input struct {
	// Name is that of the SandboxRoute.
	Name string
	// Spec is the tenant's, with provider gateway. Admit says whether the Baseline admits it.
	Spec *sandbarv1alpha1.SandboxRouteSpec
	// Namespace is that of the placement of the group.
	Namespace string
	// SandboxID is that of the group.
	SandboxID string
	// Backends are the Services that the backends of each rule stand for: by the rule's name, in the order of its backends.
	Backends map[string][]Backend
	// Labels and Annotations are put on each HTTPRoute; they say whose it is.
	Labels, Annotations map[string]string
}

// Backend is a port of a Service of the runtime cluster.
type Backend struct {
	// Namespace is the placement for a component, and a namespace of the Baseline for a Service.
	Namespace, Name string
	Port            int32
}

// Rendered is a SandboxRoute as the Gateway API has it.
type Rendered struct {
	// Routes are HTTPRoutes in the placement. All but the first are there because one holds no more; together they have the
	// rules in the order of the SandboxRoute.
	Routes []*unstructured.Unstructured
	// Granted are the Services of other namespaces that the routes lead to, sorted; see Grants.
	Granted []types.NamespacedName
}

// Render makes the HTTPRoutes. Each match of each rule has the selector, as its first header, and a rule without matches has
// one of the selector alone. An error of a spec that is wrong is a *RefusedError; any other is a mistake of the caller.
func Render(in Input) (*Rendered, error) {
	if in.Spec == nil || in.Name == "" || !placement.IsNamespace(in.Namespace) {
		return nil, errors.New("rendering needs the name and the spec of a SandboxRoute, and the namespace of a placement")
	}
	if in.Spec.Provider != sandbarv1alpha1.RouteByGateway {
		return nil, fmt.Errorf("an HTTPRoute is for provider gateway, and not for %q", in.Spec.Provider)
	}
	if err := Check(in.Spec); err != nil {
		return nil, err
	}
	selector, err := Selector(in.Spec.SelectorHeaderName, in.SandboxID)
	if err != nil {
		return nil, err
	}
	rules := make([]httpRule, 0, len(in.Spec.Rules))
	granted := sets.New[types.NamespacedName]()
	for i := range in.Spec.Rules {
		rule := &in.Spec.Rules[i]
		backends, err := in.backends(rule, granted)
		if err != nil {
			return nil, err
		}
		rules = append(rules, httpRule{Matches: selected(rule.Matches, selector), BackendRefs: backends})
	}
	r := &Rendered{Granted: sortedNames(granted)}
	for i, part := range split(rules) {
		route, err := in.route(i, part)
		if err != nil {
			return nil, err
		}
		r.Routes = append(r.Routes, route)
	}
	return r, nil
}

// selected is the one place where matches are written: each gets the selector. The attack: a rule that is written without
// it would take the requests of everybody who uses the hostname.
func selected(matches []sandbarv1alpha1.SandboxRouteMatch, selector sandbarv1alpha1.SandboxRouteHeaderMatch) []sandbarv1alpha1.SandboxRouteMatch {
	if len(matches) == 0 {
		matches = []sandbarv1alpha1.SandboxRouteMatch{{}}
	}
	all := make([]sandbarv1alpha1.SandboxRouteMatch, 0, len(matches))
	for i := range matches {
		m := Normal(&matches[i])
		m.Headers = append([]sandbarv1alpha1.SandboxRouteHeaderMatch{selector}, m.Headers...)
		all = append(all, m)
	}
	return all
}

// Normal is a copy of a match with all defaults written out and the names of headers in lower case, so that an API server
// adds nothing to it.
func Normal(m *sandbarv1alpha1.SandboxRouteMatch) sandbarv1alpha1.SandboxRouteMatch {
	kind, value := pathOf(m.Path)
	n := sandbarv1alpha1.SandboxRouteMatch{Path: &sandbarv1alpha1.SandboxRoutePathMatch{Type: kind, Value: value}, Method: m.Method}
	for _, h := range m.Headers {
		h.Name, h.Type = strings.ToLower(h.Name), typeOf(h.Type)
		n.Headers = append(n.Headers, h)
	}
	for _, q := range m.QueryParams {
		q.Type = typeOf(q.Type)
		n.QueryParams = append(n.QueryParams, q)
	}
	return n
}

func typeOf(t sandbarv1alpha1.SandboxRouteValueType) sandbarv1alpha1.SandboxRouteValueType {
	if t == "" {
		return sandbarv1alpha1.RouteValueExact
	}
	return t
}

// backends are those of a rule. Services of other namespaces are added to granted.
func (in Input) backends(rule *sandbarv1alpha1.SandboxRouteRule, granted sets.Set[types.NamespacedName]) ([]backendRef, error) {
	resolved := in.Backends[rule.Name]
	if len(resolved) != len(rule.Backends) {
		return nil, fmt.Errorf("rule %s has %d backends, and %d of them have a Service", rule.Name, len(rule.Backends), len(resolved))
	}
	var refs []backendRef
	for i, service := range resolved {
		b := &rule.Backends[i]
		if service.Name == "" || service.Port < 1 || service.Port > 65535 {
			return nil, fmt.Errorf("backend %d of rule %s has neither a Service nor a port: %v", i, rule.Name, service)
		}
		if b.Component != nil && service.Namespace != in.Namespace {
			return nil, fmt.Errorf("component %s of rule %s is in %s, which is not the placement %s", b.Component.Name, rule.Name, service.Namespace, in.Namespace)
		}
		if b.Service != nil {
			if err := checkGranted(service.Namespace); err != nil {
				return nil, err
			}
			granted.Insert(types.NamespacedName{Namespace: service.Namespace, Name: service.Name})
		}
		refs = append(refs, backendRef{Kind: kindService, Namespace: service.Namespace, Name: service.Name, Port: service.Port, Weight: weightOf(b)})
	}
	return refs, nil
}

// checkGranted refuses a namespace whose Services no route may lead to. The attacks: a Service of kube-system, of the
// provider, or in the placement of another tenant. Resolving an alias refuses them before; what gives rights asks again.
func checkGranted(namespace string) error {
	if namespace == "" || baseline.Reserved(namespace) {
		return refuse(sandbarv1alpha1.RouteNotAllowed, "namespace %q is not one of a Baseline: a Service in it cannot be a backend", namespace)
	}
	return nil
}

// route is the HTTPRoute with a part of the rules.
func (in Input) route(index int, rules []httpRule) (*unstructured.Unstructured, error) {
	var parents []parentRef
	for _, p := range in.Spec.Gateway.ParentRefs {
		parents = append(parents, parentRef{Group: GatewayGroup, Kind: kindGateway, Namespace: p.Namespace, Name: p.Name, SectionName: p.SectionName, Port: p.Port})
	}
	labels := maps.Clone(in.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[placement.LabelSandboxID] = in.SandboxID
	labels[placement.LabelManagedBy] = placement.ManagedBy
	meta := metav1.ObjectMeta{Namespace: in.Namespace, Name: Name(in.Name, index), Labels: labels, Annotations: maps.Clone(in.Annotations)}
	return object(HTTPRouteGVK, meta, httpRouteSpec{ParentRefs: parents, Hostnames: in.Spec.Gateway.Hostnames, Rules: rules})
}

func sortedNames(set sets.Set[types.NamespacedName]) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(set), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}
