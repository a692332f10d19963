// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Set is what a set wants its members to be.
type Set struct {
	Key export.Key
	UID types.UID
	// Template is the name of the SandboxTemplate, or of the provider's Template, that it is made of.
	Template sandbarv1alpha1.PodTemplateRef
	// Field is the field of the set that says so, for messages.
	Field string
	// Change is what the set makes different in the pods of its template.
	Change scope.PodChange
	// Keep is set if a Sandbox that takes a member keeps the resources that the change gives it.
	Keep bool
	Made
	Priority int32
	// MaxAge is how long after its pod's start a member may be taken; zero: for ever.
	MaxAge time.Duration
}

// Made is what the members of a set would be if they were made now.
type Made struct {
	// Revision is of the pod, with the set's patch, and TemplateRevision without it.
	Revision, TemplateRevision string
	// Differs says how the two pods differ.
	Differs placement.MemberPatch
	// PodSecurity is the pod security level of their placements.
	PodSecurity string
}

// Member is one that is there.
type Member struct {
	placement.Member

	// namespace is nil while the cache does not show it.
	namespace *corev1.Namespace
	// Ready is whether its pod is, now; Going whether it is being deleted.
	Ready   bool
	Going   bool
	Created time.Time
	// Started is when its pod came to a node; zero while it has not.
	Started time.Time
	// Trouble is why it does not come up; zero if nothing says so.
	Trouble Trouble
}

// Age is for how long a member's pod has been on its node. A member that still waits for a node has no age: it
// keeps its place until there is room.
func (m Member) Age(now time.Time) time.Duration {
	switch {
	case !m.Started.IsZero():
		return now.Sub(m.Started)
	case m.State == placement.MemberWarm:
		return now.Sub(m.Created) // its pod is being replaced
	}
	return 0
}

// Trouble is why a member does not come up.
type Trouble struct {
	Reason, Message string
	// Failing is set if it will not mend itself soon.
	Failing bool
	// Waits is set if there is no room for it now: it comes up as soon as there is.
	Waits bool
	// Since is when it began.
	Since time.Time
}

// Claims are how many members were taken out of a set since that was last asked.
type Claims struct {
	Count int64
	Last  time.Time
}
