// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandboxroute has Gateways of the runtime cluster, and proxies in front of Services, lead requests that name a sandbox to its copies, as tenants'
// SandboxRoutes say.
//
// In: the SandboxRoutes of all workspaces, the groups and Baselines that they are about, the HTTPRoutes of the runtime cluster.
// Out: HTTPRoutes in the placements of the groups, and the status of each SandboxRoute. Package route decides what is in them.
//
//	register.go    the kind, and its controller
//	reconciler.go  one look at one route
//	resolve.go     where it leads to
//	proxy.go       the same by proxies, which package interception puts in front of Services
//	status.go      what it says of itself
//	watch.go       the HTTPRoutes that there are
//	cluster.go     the runtime cluster
//	owner.go       of which SandboxRoute an HTTPRoute is made
package sandboxroute

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/events"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/interception"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/tenantkind"
)

// Kind is that of SandboxRoutes.
var Kind = tenantkind.Kind{Kind: builtin.Of("SandboxRoute"), Concurrency: 4}

// Options are what the controller of SandboxRoutes needs in addition to the two clusters.
type Options struct {
	Offers *offer.Offers
	// Groups tell where the copies of SandboxGroups are.
	Groups *instance.Groups
	// Proxies are asked to lead requests by routes with provider proxy.
	Proxies interception.Store
	// Changed is told of each route that comes, changes or goes, or whose status does: a Sandbox may have made it.
	Changed func(export.Key)
}

// Routes are the SandboxRoutes of all tenants. The zero value has none until Register.
type Routes struct {
	objects *export.Objects
	named   *export.References
	wake    func(export.Key)
	wakeAll func()

	mu sync.Mutex
	// early are routes of which Changed was told before there was a controller.
	early []export.Key
}

// Changed has a route looked at for which something else came of what it asks of proxies; also one that is gone, and has left
// something.
func (r *Routes) Changed(route export.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wake == nil {
		r.early = append(r.early, route)
		return
	}
	r.wake(route)
}

// begin has routes looked at from now on.
func (r *Routes) begin(wake func(export.Key), wakeAll func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake, r.wakeAll = wake, wakeAll
	for _, route := range r.early {
		wake(route)
	}
	r.early = nil
}

// Objects reads and writes the routes, and reports whether they are followed: before, none can be read.
func (r *Routes) Objects() (*export.Objects, bool) {
	if r.objects == nil || !r.objects.Followed() {
		return nil, false
	}
	return r.objects, true
}

// GroupChanged has the routes looked at that lead to a group.
func (r *Routes) GroupChanged(group export.Key) {
	if r.named == nil {
		return
	}
	for _, route := range r.named.To(group) {
		r.wake(route)
	}
}

// BaselinesChanged has all routes looked at: a Baseline may admit more, or less.
func (r *Routes) BaselinesChanged() {
	if r.wakeAll != nil {
		r.wakeAll()
	}
}

// Register adds the controller to the manager of the provider workspace. all are what the kinds of instances, and the Baselines,
// were given.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, all *Routes, opts Options) error {
	dyn, err := dynamic.NewForConfig(runtime.GetConfig())
	if err != nil {
		return fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	seen := newRoutes(dyn)
	if err := mgr.Add(manager.RunnableFunc(seen.run)); err != nil {
		return fmt.Errorf("adding the watch of HTTPRoutes: %w", err)
	}
	says := func(context.Context, client.Reader, client.Reader) (any, error) { return nil, nil } //nolint:nilnil // the Baselines say what the operator admits
	kind := Kind
	kind.Changed = opts.Changed
	return tenantkind.Register(mgr, runtime, opts.Offers, kind, says,
		func(c *export.Controller) reconcile.TypedReconciler[export.Key] {
			r := &reconciler{
				objects: c.Objects, groups: opts.Groups, runtime: cluster{dyn}, others: seen.list, now: time.Now, changed: opts.Changed, proxies: opts.Proxies,
				events: events.NewRecorder(c.Objects.Record, eventsTotal),
			}
			seen.wake, seen.wakeAll = func(key export.Key) { c.Wake(key, false) }, c.WakeAll
			all.objects, all.named = c.Objects, &r.named
			all.begin(seen.wake, seen.wakeAll)
			return r
		})
}
