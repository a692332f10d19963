// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package builtin is the register of the kinds that tenants get with the APIExport without a Template: SandboxTemplate,
// SandboxSet, SandboxClaim, SandboxRoute, DevSession. All that differs from one of these kinds to the next, and is not part of its Go type or its
// controller, stands here: the schema that is published, the rules of the export's permission policy, the ready-made
// roles, the policy on fields that do not change, the census of a sweep, benchmarks and tests read it.
//
// A new kind is its type in apis/v1alpha1, the package of its controller, and one entry of Kinds.
package builtin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Sandbox is the kind whose instances the built-in kinds are about. A Template defines it, and not this register.
const Sandbox = "Sandbox"

// SandboxGroup is the kind to whose copies SandboxRoutes lead. A Template defines it, too.
const SandboxGroup = "SandboxGroup"

// SandboxRoute is the kind of the objects that lead requests to copies.
const SandboxRoute = "SandboxRoute"

// DevSession is the kind of the objects that have a workload edited live.
const DevSession = "DevSession"

// Kinds are all built-in kinds, in the order in which roles list them.
var Kinds = []Kind{
	{
		Name: "SandboxTemplate", Resource: "sandboxtemplates", PodField: "template", Calls: []string{"claim"},
		Immutable: []string{"template", "templateRef", "patch", "volumeClaimTemplates", "placementClass", "persistentContents", "runtime"},
		ImmutableMessage: "a SandboxTemplate does not change, but for its description: create another one, with a name of its own, " +
			"and let Sandboxes refer to that",
	},
	{Name: "SandboxSet", Resource: "sandboxsets", PodField: "template", Subresources: []string{"scale"}, KeepsPlacements: true},
	{Name: "SandboxClaim", Resource: "sandboxclaims"},
	{Name: SandboxRoute, Resource: "sandboxroutes"},
	{
		Name: DevSession, Resource: "devsessions", Shown: []string{"log", "process"}, Reads: []string{"changes", "env", "files"},
		Calls: []string{"env", "exec", "restart", "sync"},
	},
}

// Kind is a built-in kind. It is namespaced, has the subresource status, and is of version v1alpha1.
type Kind struct {
	// Name is the kind, as in SandboxSet.
	Name string
	// Resource is the plural name in lower case.
	Resource string
	// Subresources are those that tenants read and write, in addition to status, which they read. Default: none.
	Subresources []string
	// Calls are those that the data plane answers: a tenant calls one with the right to create it. Default: none.
	Calls []string
	// Reads are those that the data plane answers to callers with the right to get them; Shown are those of them that people who
	// only look on get too. Default: none.
	Reads, Shown []string
	// KeepsPlacements says that placements without an owner belong to an object of the kind: a sweep asks for it.
	KeepsPlacements bool
	// PodField is the field of spec that holds a pod template with the schema and the rules of a Sandbox's podTemplate.
	// Default: none.
	PodField string
	// Immutable are the fields of spec that an update must not change. It is for fields whose schema cannot say so by a
	// rule of its own, such as a patch of any shape. Default: none.
	Immutable []string
	// ImmutableMessage tells a tenant why such an update is refused, and what to do. It is required with Immutable.
	ImmutableMessage string
}

// Of returns the built-in kind of a name. It panics if there is none: the register lacks an entry.
func Of(name string) Kind {
	kind, ok := Lookup(name)
	if !ok {
		panic(fmt.Sprintf("there is no built-in kind %q; add it to Kinds of apis/builtin", name))
	}
	return kind
}

// Lookup returns the built-in kind of a name, and reports whether there is one.
func Lookup(name string) (Kind, bool) {
	for _, kind := range Kinds {
		if kind.Name == name {
			return kind, true
		}
	}
	return Kind{}, false
}

// GVK returns the group, version and kind.
func (k Kind) GVK() schema.GroupVersionKind { return sandbarv1alpha1.GroupVersion.WithKind(k.Name) }

// GVR returns the group, version and resource.
func (k Kind) GVR() schema.GroupVersionResource {
	return sandbarv1alpha1.GroupVersion.WithResource(k.Resource)
}

// Definition returns the name of the generated CustomResourceDefinition among the files of package crds.
func (k Kind) Definition() string { return sandbarv1alpha1.GroupName + "_" + k.Resource + ".yaml" }
