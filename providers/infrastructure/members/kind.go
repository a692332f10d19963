// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Kinds has the kind whose placements sets keep; *instance.Kinds does.
type Kinds interface {
	// MemberKind returns that kind, and reports whether the provider offers it now. What is returned is good for one look.
	MemberKind() (Kind, bool)
}

// Kind makes of a member what the controller of its kind would make of an instance, so that an instance that takes it finds
// what would have been made for it.
type Kind interface {
	// Provider is the logical cluster of the provider workspace.
	Provider() string
	// Now is the time to judge by.
	Now() time.Time
	// Scope is that of an instance which would take a member of a set, and has a status. The error is
	// outcome.ErrNotConfigured or ErrNoKind while there can be none.
	Scope(member placement.Member, set Set, status sandbarv1alpha1.InstanceStatus) (*scope.Scope, error)
	// Converge makes what a placement lacks, its kro instance if compose is set, and returns how it is, also with an error.
	Converge(ctx context.Context, s *scope.Scope, compose bool) (outcome.Outcome, error)
	// Made is what the members of a set would be if they were made now, with their pod. The error is an
	// *outcome.RefusalError if there would be none; what is known of the template is returned with it.
	Made(ctx context.Context, set Set) (Made, *podtemplate.Pod, error)
	// Admit gives a member a place in its workspace, or returns an *outcome.FullError; GiveBack gives the place back.
	Admit(member placement.ID, limits *sandbarv1alpha1.Limits) error
	GiveBack(member placement.ID)
}
