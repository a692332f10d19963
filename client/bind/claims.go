// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package bind

import (
	"slices"
	"strings"
)

// Claim is a permission in a tenant's workspace that a provider asks for, beyond that on its own kinds.
type Claim struct {
	// Group and Resource are those of the objects; the core group is empty.
	Group, Resource string
	// Verbs are what the provider may do with them.
	Verbs []string
	// IdentityHash is that of a resource that another provider exports; empty for kcp's own.
	IdentityHash string
	// Purpose says what Sandbar uses the permission for; empty for a claim that is not one of Sandbar's.
	Purpose string
}

// String returns the claim in words, for example "create events".
func (c Claim) String() string {
	resource := c.Resource
	if c.Group != "" {
		resource += "." + c.Group
	}
	if slices.Contains(c.Verbs, "*") {
		return "any access to " + resource
	}
	return strings.Join(c.Verbs, ", ") + " " + resource
}

// is reports whether two claims are about the same resource.
func (c Claim) is(other Claim) bool {
	return c.Group == other.Group && c.Resource == other.Resource && c.IdentityHash == other.IdentityHash
}

// without returns the claim with the verbs that the other one does not have.
func (c Claim) without(other Claim) Claim {
	if slices.Contains(other.Verbs, "*") {
		c.Verbs = nil
		return c
	}
	c.Verbs = slices.DeleteFunc(slices.Clone(c.Verbs), func(v string) bool { return slices.Contains(other.Verbs, v) })
	return c
}

// shared is the permission to read Secrets of the workspace, for spec.envFrom of Sandboxes. A binding need not grant it, and
// grants no more than it must with a selector for the label sandbar.dev/share, so no command here does.
var shared = Claim{Resource: "secrets", Verbs: []string{"get"}}

// isOptional reports whether a claim is one that a workspace may grant, or not, without any word about it.
func (c Claim) isOptional() bool { return c.is(shared) && len(c.without(shared).Verbs) == 0 }

// Claims returns the permissions that a binding to Sandbar's export grants.
func Claims() []Claim {
	return []Claim{
		{
			Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: []string{"create"},
			Purpose: "ask kcp what a user without a token may do, who comes through kcp's front proxy or with a link to a preview",
		},
		{
			Resource: "events", Verbs: []string{"create"},
			Purpose: "write events about your instances, which kubectl describe shows; it can read none",
		},
	}
}
