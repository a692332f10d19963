// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// memberKind implements members.Kind: a member is made by the phases that make an instance's placement.
type memberKind struct{ *reconciler }

// Provider implements members.Kind.
func (k memberKind) Provider() string { return k.settings().Provider }

// Now implements members.Kind.
func (k memberKind) Now() time.Time { return k.now() }

// Scope implements members.Kind.
func (k memberKind) Scope(member placement.Member, set members.Set, status sandbarv1alpha1.InstanceStatus) (*scope.Scope, error) {
	settings := k.settings()
	if settings.Infrastructure == nil {
		return nil, outcome.ErrNotConfigured
	}
	if settings.Pod == nil {
		return nil, members.ErrNoKind
	}
	object := k.kind.NewObject()
	object.SetNamespace(member.Set.Namespace)
	object.SetName(placement.BornInstance)
	object.SetGeneration(1) // as has one that was created a moment ago
	object.Object["spec"] = map[string]any{
		settings.Pod.Fields.From: map[string]any{"templateRef": map[string]any{"kind": set.Template.Kind, "name": set.Template.Name}},
	}
	words := *settings.Pod
	words.Written, words.Change = set.Field, set.Change
	settings.Pod = &words
	return scope.New(k.kind, settings, object, status, placement.Placed{
		ID: member.ID, Owner: placement.Owner{Cluster: member.Origin}, Object: types.NamespacedName{Namespace: member.Set.Namespace, Name: placement.BornInstance},
	}).Of(member), nil
}

// Converge implements members.Kind.
func (k memberKind) Converge(ctx context.Context, s *scope.Scope, compose bool) (outcome.Outcome, error) {
	o := outcome.Outcome{Now: k.now()}
	if _, o.Placing = k.place(ctx, s); o.Placing == nil {
		o.Instance, o.Composing = k.runtime.composed(ctx, s)
	}
	if o.GoesOn() && o.Instance == nil && compose {
		o.Instance, _, o.Composing = k.compose(ctx, s, nil, lifecycle.Decision{}, nil)
	}
	seen, looking := k.observe(ctx, s, o)
	o.Observation = seen
	return o, errors.Join(retried(o.Placing), retried(correctable(o.Composing)), looking)
}

// Made implements members.Kind.
func (k memberKind) Made(ctx context.Context, set members.Set) (made members.Made, pod *podtemplate.Pod, err error) {
	member := placement.Member{ID: placement.ID{Origin: set.Key.Cluster}, Set: set.Key.NamespacedName, SetUID: set.UID}
	s, err := k.Scope(member, set, sandbarv1alpha1.InstanceStatus{})
	if err != nil {
		return made, nil, err
	}
	plain, err := k.revisionPod(ctx, s, scope.PodChange{})
	if err != nil {
		return made, nil, err
	}
	made = members.Made{Revision: plain.revision, TemplateRevision: plain.revision, PodSecurity: s.PodSecurity()}
	if set.Change == (scope.PodChange{}) {
		return made, plain.pod, nil
	}
	patched, err := k.patchedPod(ctx, s, set.Change)
	if err != nil {
		return made, nil, err
	}
	differs := patchOf(plain.pod, patched.pod)
	if differs == placement.PatchedResourcesDiffer && !set.Keep {
		if err := resizable(s, plain.pod, patched.pod); err != nil {
			return made, nil, err
		}
		differs = placement.PatchedResizable
	}
	made.Revision, made.Differs = patched.revision, differs
	return made, patched.pod, nil
}

// Admit implements members.Kind.
func (k memberKind) Admit(member placement.ID, limits *sandbarv1alpha1.Limits) error {
	return k.capacity.admitMember(member, limits)
}

// GiveBack implements members.Kind.
func (k memberKind) GiveBack(member placement.ID) { k.capacity.giveBack(member) }
