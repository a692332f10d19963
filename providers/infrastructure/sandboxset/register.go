// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandboxset keeps the members of tenants' SandboxSets: how many there are to be, of which revision,
// and how the sets are.
//
// In: the SandboxSets of all workspaces, and the members that there are (members.Members). Out: members that
// are made or removed, and the status of each set.
//
//	register.go    the kind, and its controller
//	reconciler.go  one look at one set
//	revise.go      what its members would be now
//	template.go    what a set is made of, and what is made of a set's own template
//	plan.go        how many to make, and which to remove; it asks nobody
//	status.go      what a set says of itself
//	conditions.go  in its conditions
//	events.go      and in events
package sandboxset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/sandboxtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/tenantkind"
)

// Kind is that of SandboxSets.
var Kind = tenantkind.Kind{Kind: builtin.Of("SandboxSet"), Concurrency: 4}

// Options are what the controller of SandboxSets needs in addition to the two clusters.
type Options struct {
	Offers    *offer.Offers
	Templates *sandboxtemplate.Templates
	Members   *members.Members
	// Wakes have a set looked at whose members have changed.
	Wakes *export.Wakes
}

// Sets are the SandboxSets of all tenants, for those who read SandboxTemplates: a set with a template of its own stands for
// one. The zero value has none until Register.
type Sets struct {
	reconciler *reconciler
	wake       func(set export.Key)
}

// TemplateChanged implements sandboxtemplate.Reader: the sets that refer to it are looked at.
func (s *Sets) TemplateChanged(template export.Key) {
	for _, set := range s.reconciler.references.To(template) {
		s.wake(set)
	}
}

// StandIn implements sandboxtemplate.StandIns.
func (s *Sets) StandIn(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error) {
	return s.reconciler.template(ctx, key)
}

// Register adds the controller to the manager of the provider workspace. sets are what the SandboxTemplates were given.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, sets *Sets, opts Options) error {
	says := func(ctx context.Context, provider, reader client.Reader) (any, error) {
		return sandboxtemplate.Says(ctx, provider, reader, runtime.Names)
	}
	return tenantkind.Register(mgr, runtime, opts.Offers, Kind, says,
		func(c *export.Controller) reconcile.TypedReconciler[export.Key] {
			r := newReconciler(c.Objects, opts.Members, opts.Templates, sandboxtemplate.NewTries(runtime.GetClient(), mgr.GetClient()))
			r.limits = limitsOf(mgr.GetClient(), runtime.GetClient(), runtime.Names)
			opts.Wakes.Add(Kind.Name, c.Wake)
			sets.reconciler, sets.wake = r, func(set export.Key) { c.Wake(set, false) }
			return r
		})
}
