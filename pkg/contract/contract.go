// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract reads the data-plane contract of a Template: which verbs a kind has, and
// what the status of a runtime instance says of where a verb leads. It is pure: no network,
// no clock. Whether a reference may be followed is decided by package placement.
package contract

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// What an endpoint without the runtime answers: the values of its from.
const (
	// FromInstanceStatus is the status of the tenant's object.
	FromInstanceStatus = "instanceStatus"
	// FromPassword is the password that the provider has made for what the graph runs.
	FromPassword = "password"
)

const (
	// ProxyVerb is the verb that leads to what the tenant runs.
	ProxyVerb = "proxy"
	// ProxyURLVerb gives out links that open in a browser what ProxyVerb leads to. Every kind
	// with a preview has it; no Template declares it.
	ProxyURLVerb = "proxy-url"
	// LogVerb answers what an instance prints; of one that is suspended, what was kept of it.
	LogVerb = "log"
	// RenewVerb uses the instance and moves its shutdown time. Every kind has it; no Template
	// declares it.
	RenewVerb = "renew"
	// ClaimVerb is the verb of SandboxTemplates that creates a Sandbox and waits for it. No Template
	// declares it.
	ClaimVerb = "claim"
)

// PodsOfComponent has an endpoint lead to a Pod of the component that the caller names: the value of its podsOf.
const PodsOfComponent = "Component"

// AnyComponent stands, in a list of verbs, for the name of a component that only the tenant knows.
const AnyComponent = "*"

// What of a Pod an endpoint with a podRef or podsOf leads to: the values of its podSubresource.
const (
	PodLog         = "log"
	PodExec        = "exec"
	PodAttach      = "attach"
	PodPortForward = "portforward"
	// PodProxy is the port that the caller names.
	PodProxy = "proxy"
)

// PodStream tells whether an endpoint leads to a subresource of a Pod that is a WebSocket.
func PodStream(e *sandbarv1alpha1.Endpoint) bool {
	switch e.PodSubresource {
	case PodExec, PodAttach, PodPortForward:
		return toPod(e)
	}
	return false
}

func toPod(e *sandbarv1alpha1.Endpoint) bool { return e.PodRef != "" || e.PodsOf != "" }

// AnyPort tells whether callers choose the port that an endpoint leads to.
func AnyPort(e *sandbarv1alpha1.Endpoint) bool { return toPod(e) && e.PodSubresource == PodProxy }

// ErrNotReady means that the runtime instance does not say yet where the verb leads.
var ErrNotReady = errors.New("instance is not ready")

var errNoObject = errors.New("it is not an object")

// Ref is a reference that a graph's status holds.
type Ref struct {
	Namespace string
	Name      string
}

// Find returns the endpoint of a verb; component is empty for the instance's own verbs.
func Find(dp *sandbarv1alpha1.DataPlane, component, verb string) (sandbarv1alpha1.Endpoint, bool) {
	endpoints := dp.Endpoints
	if component != "" {
		endpoints = endpointsOf(dp, component)
	}
	e, ok := endpoints[verb]
	return e, ok
}

// endpointsOf are those of a component. What the Template says of one that it names goes before what it says of each.
func endpointsOf(dp *sandbarv1alpha1.DataPlane, component string) map[string]sandbarv1alpha1.Endpoint {
	named, ok := dp.Components[component]
	if !ok && dp.EachComponent != nil {
		return dp.EachComponent.Endpoints
	}
	return named.Endpoints
}

// Preview returns the endpoint that a browser sees of an instance, or of a component of it: the
// verb proxy, if it leads to a Service or to a Pod's ports.
func Preview(dp *sandbarv1alpha1.DataPlane, component string) (sandbarv1alpha1.Endpoint, bool) {
	e, ok := Find(dp, component, ProxyVerb)
	return e, ok && (e.ServiceRef != "" || AnyPort(&e))
}

// InForce is the contract of a Template that counts: that of the last generation that was accepted. A
// Template that has just been applied, or is refused, must not change what instances are asked for.
func InForce(t *sandbarv1alpha1.Template) *sandbarv1alpha1.DataPlane {
	if t.Status.DataPlane != nil {
		return t.Status.DataPlane.DeepCopy()
	}
	return Complete(&t.Spec)
}

// Verbs lists all verbs of a kind, sorted; those of a component as "components/<component>/<verb>", with AnyComponent for
// the components that only the tenant knows.
func Verbs(dp *sandbarv1alpha1.DataPlane) []string { return VerbsOf(dp, []string{AnyComponent}) }

// VerbsOf is Verbs for an instance, whose components that only the tenant knows are given by their names.
func VerbsOf(dp *sandbarv1alpha1.DataPlane, components []string) []string {
	var verbs []string
	add := func(prefix, component string, endpoints map[string]sandbarv1alpha1.Endpoint) {
		for verb := range endpoints {
			verbs = append(verbs, prefix+verb)
		}
		if _, ok := Preview(dp, component); ok {
			verbs = append(verbs, prefix+ProxyURLVerb)
		}
	}
	add("", "", dp.Endpoints)
	verbs = append(verbs, RenewVerb)
	for name, component := range dp.Components {
		add("components/"+name+"/", name, component.Endpoints)
	}
	for _, name := range components {
		if _, named := dp.Components[name]; !named && dp.EachComponent != nil {
			add("components/"+name+"/", name, dp.EachComponent.Endpoints)
		}
	}
	slices.Sort(verbs)
	return slices.Compact(verbs)
}

// OfParts is the contract of a compound instance (Template.spec.compound): of what a kind has, that of components and what
// needs no pod.
func OfParts(dp *sandbarv1alpha1.DataPlane) *sandbarv1alpha1.DataPlane {
	of := dp.DeepCopy()
	maps.DeleteFunc(of.Endpoints, func(_ string, e sandbarv1alpha1.Endpoint) bool { return e.From != FromInstanceStatus })
	of.Components = nil
	return of
}

// Subresources lists the names under which verbs are authorized, sorted and without repeats:
// a component's verb is authorized like the instance's verb of that name.
func Subresources(dp *sandbarv1alpha1.DataPlane) []string {
	var names []string
	for _, verb := range Verbs(dp) {
		names = append(names, verb[strings.LastIndexByte(verb, '/')+1:])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// RefPaths lists the status paths that the contract refers to, sorted and without repeats.
// They are private: tenants do not see them.
func RefPaths(dp *sandbarv1alpha1.DataPlane) []string {
	var paths []string
	if dp.TokenSecretRef != "" {
		paths = append(paths, dp.TokenSecretRef)
	}
	add := func(endpoints map[string]sandbarv1alpha1.Endpoint) {
		for _, e := range endpoints {
			for _, p := range []string{e.ServiceRef, e.PodRef} {
				if p != "" {
					paths = append(paths, p)
				}
			}
		}
	}
	add(dp.Endpoints)
	for _, component := range dp.Components {
		add(component.Endpoints)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Resolve reads the reference at a path such as "status.controlServiceRef" of a runtime
// instance. It returns ErrNotReady when the path is not filled in yet.
func Resolve(runtimeInstance map[string]any, path string) (Ref, error) {
	value, found, err := unstructured.NestedFieldNoCopy(runtimeInstance, strings.Split(path, ".")...)
	if err != nil {
		return Ref{}, fmt.Errorf("reading %s: %w", path, err)
	}
	fields, isObject := value.(map[string]any)
	if found && !isObject {
		return Ref{}, fmt.Errorf("reading %s: %w", path, errNoObject)
	}
	if !found {
		return Ref{}, fmt.Errorf("%w: %s is not set yet", ErrNotReady, path)
	}
	name, _ := fields["name"].(string)
	namespace, _ := fields["namespace"].(string)
	if name == "" || namespace == "" {
		return Ref{}, fmt.Errorf("%w: %s has no name or no namespace yet", ErrNotReady, path)
	}
	return Ref{Namespace: namespace, Name: name}, nil
}

// GivesPassword reports whether an endpoint answers the instance's password.
func GivesPassword(dp *sandbarv1alpha1.DataPlane) bool {
	gives := func(endpoints map[string]sandbarv1alpha1.Endpoint) bool {
		for _, e := range endpoints {
			if e.From == FromPassword {
				return true
			}
		}
		return false
	}
	if gives(dp.Endpoints) {
		return true
	}
	for _, component := range dp.Components {
		if gives(component.Endpoints) {
			return true
		}
	}
	return false
}
