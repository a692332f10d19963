// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/deadline"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/relist"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/baseline"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/canary"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/compound"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/control"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/devsession"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/interception"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/sandboxclaim"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/sandboxroute"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/sandboxset"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/sandboxtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/serving"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/sweep"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/template"
)

// reconcileTimeout bounds a reconcile, so that a server which answers each call a moment before its
// deadline keeps no worker for long.
const reconcileTimeout = 2 * time.Minute

type controllersOptions struct {
	leaderElect        bool
	metricsAddress     string
	probeAddress       string
	sweepMayDeleteMost bool
}

func (o *controllersOptions) addFlags(fs *pflag.FlagSet, leaderElect bool) {
	fs.BoolVar(&o.leaderElect, "leader-elect", leaderElect,
		"take a Lease in the provider workspace first, so that one of several replicas is active")
	fs.StringVar(&o.metricsAddress, "controllers-metrics-address", "127.0.0.1:8081",
		"address of the controllers' Prometheus metrics; 0 for none")
	fs.StringVar(&o.probeAddress, "controllers-probe-address", "127.0.0.1:8082",
		"address of the controllers' /healthz and /readyz; 0 for none")
	fs.BoolVar(&o.sweepMayDeleteMost, "sweep-may-delete-most", false,
		"let one sweep delete more than half of ten or more placements; for one start, after the log has refused a sweep and you have checked")
}

func newControllersCommand() *cobra.Command {
	var conn connections
	var opts controllersOptions
	cmd := &cobra.Command{
		Use:   "controllers",
		Short: "Make Templates into APIs and instances into placements",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := conn.validate(); err != nil {
				return err
			}
			found, err := conn.configs("controllers", conn.setUpLogging())
			if err != nil {
				return err
			}
			if err := found.keep(cmd.Context(), metrics.Registry); err != nil {
				return err
			}
			return runControllers(cmd.Context(), opts, conn.exportName, found)
		},
	}
	conn.addFlags(cmd.Flags())
	opts.addFlags(cmd.Flags(), true)
	return cmd
}

// runControllers runs all controllers until the context ends, or they cannot go on.
func runControllers(ctx context.Context, opts controllersOptions, exportName string, found clusters) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clock := &inuse.Clock{}
	mgr, err := newManager(ctx, opts, deadline.Config(clock.Watch(inuse.KCP, found.kcp, "/"), deadline.Default()))
	if err != nil {
		return fmt.Errorf("connecting to the provider workspace: %w", err)
	}
	cluster, err := runtimecluster.New(deadline.Config(clock.Watch(inuse.Runtime, found.runtime, "/apis/coordination.k8s.io/"), deadline.Default()), found.names)
	if err != nil {
		return fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	if err := mgr.Add(cluster); err != nil {
		return fmt.Errorf("adding the runtime cluster: %w", err)
	}
	rollouts, err := rollout.Register(mgr, cluster, clock)
	if err != nil {
		return fmt.Errorf("registering the rollouts: %w", err)
	}
	bird, err := canary.Register(mgr, cluster, canary.Options{})
	if err != nil {
		return fmt.Errorf("registering the canary: %w", err)
	}
	replicas, err := serving.Register(mgr, cluster, clock)
	if err != nil {
		return fmt.Errorf("registering the watch of the data plane's replicas: %w", err)
	}
	if err := platform.Register(mgr, cluster, platform.Options{
		ExportName: exportName, Replicas: replicas, Try: instance.Try(cluster.GetClient(), found.names), Egress: place.EgressOf, Canary: bird,
	}); err != nil {
		return fmt.Errorf("registering the platform controller: %w", err)
	}
	offers, err := offer.Register(mgr, exportName)
	if err != nil {
		return fmt.Errorf("registering the offers to tenants: %w", err)
	}
	if err := template.Register(mgr, cluster, template.Options{Offers: offers, Rollouts: rollouts}); err != nil {
		return fmt.Errorf("registering the template controller: %w", err)
	}
	if err := control.Register(mgr, cluster, control.Options{}); err != nil {
		return fmt.Errorf("registering the controller of control tokens: %w", err)
	}
	wakes, sets, routes, sessions := &export.Wakes{}, &sandboxset.Sets{}, &sandboxroute.Routes{}, &devsession.Sessions{}
	kinds := instance.NewKinds(builtin.Sandbox, wakes.For(sandboxclaim.Kind.Name, false), func(group export.Key) {
		routes.GroupChanged(group)
		sessions.GroupChanged(group)
	})
	kinds.Groups().TellSessions(sessions.Looked)
	baselinesChanged := func() {
		kinds.BaselinesChanged()
		routes.BaselinesChanged()
		sessions.BaselinesChanged()
	}
	if err := baseline.Register(mgr, cluster, baselinesChanged); err != nil {
		return fmt.Errorf("registering the controller of Baselines: %w", err)
	}
	templates, err := sandboxtemplate.Register(mgr, cluster, sandboxtemplate.Options{
		Offers: offers, Readers: []sandboxtemplate.Reader{kinds, sets}, StandIns: sets,
	})
	if err != nil {
		return fmt.Errorf("registering the controller of SandboxTemplates: %w", err)
	}
	kept, err := members.Register(mgr, cluster, kinds, wakes.For(sandboxset.Kind.Name, true))
	if err != nil {
		return fmt.Errorf("registering the controller of members: %w", err)
	}
	if err := sandboxset.Register(mgr, cluster, sets, sandboxset.Options{Offers: offers, Templates: templates, Members: kept, Wakes: wakes}); err != nil {
		return fmt.Errorf("registering the controller of SandboxSets: %w", err)
	}
	if err := sandboxclaim.Register(mgr, cluster, sandboxclaim.Options{Offers: offers, Sandboxes: kinds.Sandboxes(), Wakes: wakes}); err != nil {
		return fmt.Errorf("registering the controller of SandboxClaims: %w", err)
	}
	proxies, err := interception.Register(mgr, cluster, interception.Options{RouteChanged: routes.Changed})
	if err != nil {
		return fmt.Errorf("registering the controller of interceptions: %w", err)
	}
	if err := sandboxroute.Register(mgr, cluster, routes, sandboxroute.Options{
		Offers: offers, Groups: kinds.Groups(), Changed: kinds.BuiltInPartChanged(builtin.SandboxRoute),
		Proxies: proxies,
	}); err != nil {
		return fmt.Errorf("registering the controller of SandboxRoutes: %w", err)
	}
	if err := devsession.Register(mgr, cluster, sessions, devsession.Options{Offers: offers, Groups: kinds.Groups()}); err != nil {
		return fmt.Errorf("registering the controller of DevSessions: %w", err)
	}
	if err := instance.Register(mgr, cluster, instance.Options{
		ExportName: exportName, Replicas: replicas, Rollouts: rollouts, Templates: templates, Kinds: kinds, Members: kept, BuiltIn: partsOf(routes),
	}); err != nil {
		return fmt.Errorf("registering the instance controllers: %w", err)
	}
	if err := sweep.Register(mgr, cluster, sweep.Options{ExportName: exportName, MayDeleteMost: opts.sweepMayDeleteMost}); err != nil {
		return fmt.Errorf("registering the sweep: %w", err)
	}
	return mgr.Start(ctx)
}

// partsOf returns the objects of built-in kinds of which compound instances have parts.
func partsOf(routes *sandboxroute.Routes) func(kind string) (compound.Parts, bool) {
	return func(kind string) (compound.Parts, bool) {
		if kind != sandboxroute.Kind.Name {
			return nil, false
		}
		objects, followed := routes.Objects()
		return objects, followed
	}
}

// schemaInterval is how often the few objects of the provider workspace are listed again: the schemas
// of Templates and of the InfrastructureProvider change with a release of Sandbar, and what was read
// under the former one lacks its fields.
const schemaInterval = 5 * time.Minute

const (
	leaseDuration = 60 * time.Second
	renewDeadline = 45 * time.Second
	retryPeriod   = 5 * time.Second
)

func newManager(ctx context.Context, opts controllersOptions, kcp *rest.Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, rbacv1.AddToScheme, sandbarv1alpha1.AddToScheme,
		kcpapisv1alpha1.AddToScheme, kcpapisv1alpha2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(kcp, ctrl.Options{
		Scheme:                  scheme,
		Cache:                   cache.Options{NewInformer: relist.Informers(ctx, schemaInterval)},
		Metrics:                 metricsserver.Options{BindAddress: opts.metricsAddress},
		HealthProbeBindAddress:  opts.probeAddress,
		LeaderElection:          opts.leaderElect,
		LeaderElectionID:        "sandbar-controllers",
		LeaderElectionNamespace: placement.SystemNamespace,
		// kcp takes half a minute to start: a leader outlives that.
		LeaseDuration: new(leaseDuration),
		RenewDeadline: new(renewDeadline),
		RetryPeriod:   new(retryPeriod),
		// controller-runtime 0.24.1's priority queue can hand an item to a worker that has gone
		// and keep its lock: the manager then misses its grace period and the lease is held.
		// Names are taken again when the controllers start again in the same process.
		Controller: config.Controller{UsePriorityQueue: new(false), SkipNameValidation: new(true), ReconciliationTimeout: reconcileTimeout},
		// The process ends when the manager does, so the next leader need not wait.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}
