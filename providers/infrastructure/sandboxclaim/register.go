// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandboxclaim makes the Sandboxes of tenants' SandboxClaims: so many, of one template, within a deadline.
//
// In: the SandboxClaims of all workspaces, and the Sandboxes that belong to them. Out: Sandboxes that are created,
// deleted or released, and the status of each claim. How a Sandbox starts, warm or cold, is its own affair.
//
//	register.go    the kind, and its controller
//	reconciler.go  one look at one claim
//	sandboxes.go   the Sandboxes of a claim
//	plan.go        what to do for a claim, and what to say of it; it asks nobody
package sandboxclaim

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/tenantkind"
)

// Kind is that of SandboxClaims.
var Kind = tenantkind.Kind{Kind: builtin.Of("SandboxClaim"), Concurrency: 4}

// Options are what the controller of SandboxClaims needs in addition to the two clusters.
type Options struct {
	Offers *offer.Offers
	// Sandboxes are those of all tenants.
	Sandboxes *instance.Sandboxes
	// Wakes have a claim looked at one of whose Sandboxes has changed.
	Wakes *export.Wakes
}

// Register adds the controller to the manager of the provider workspace.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, opts Options) error {
	says := func(context.Context, client.Reader, client.Reader) (any, error) { return nil, nil } //nolint:nilnil // the operator says nothing of claims
	return tenantkind.Register(mgr, runtime, opts.Offers, Kind, says,
		func(c *export.Controller) reconcile.TypedReconciler[export.Key] {
			opts.Wakes.Add(Kind.Name, c.Wake)
			return newReconciler(c.Objects, opts.Sandboxes, func(claim export.Key) { c.Wake(claim, false) })
		})
}
