// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/tenantkind"
)

// kind is that of SandboxTemplates.
var kind = tenantkind.Kind{Kind: builtin.Of("SandboxTemplate"), Concurrency: 2}

// Options are what the controller of SandboxTemplates needs in addition to the two clusters.
type Options struct {
	Offers *offer.Offers
	// Readers are told of SandboxTemplates that come, go, or are made again. Defaults to none.
	Readers []Reader
	// StandIns has what stands for SandboxTemplates that there are not. Defaults to nothing.
	StandIns StandIns
}

// Register adds the controller to the manager of the provider workspace, and returns what reads
// SandboxTemplates.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, opts Options) (*Templates, error) {
	templates := newTemplates(opts.Readers, opts.StandIns)
	says := func(ctx context.Context, provider, reader client.Reader) (any, error) {
		return readSettings(ctx, provider, reader, runtime.Names)
	}
	return templates, tenantkind.Register(mgr, runtime, opts.Offers, kind, says,
		func(c *export.Controller) reconcile.TypedReconciler[export.Key] {
			templates.objects, templates.wake = c.Objects, func(key export.Key) { c.Wake(key, false) }
			r := newReconciler(templates, mgr.GetClient(), runtime.GetClient())
			r.names = runtime.Names
			return r
		})
}
