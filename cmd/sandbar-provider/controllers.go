// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/template"
)

type controllersOptions struct {
	leaderElect        bool
	metricsAddress     string
	probeAddress       string
	sweepMayDeleteMost bool
}

func (o *controllersOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.leaderElect, "leader-elect", true,
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
			conn.setUpLogging()
			kcp, rt, err := conn.configs()
			if err != nil {
				return err
			}
			return runControllers(cmd.Context(), opts, conn.exportName, kcp, rt)
		},
	}
	conn.addFlags(cmd.Flags())
	opts.addFlags(cmd.Flags())
	return cmd
}

// runControllers runs all controllers until the context ends.
func runControllers(ctx context.Context, opts controllersOptions, exportName string, kcp, rt *rest.Config) error {
	mgr, err := newManager(opts, kcp)
	if err != nil {
		return fmt.Errorf("connecting to the provider workspace: %w", err)
	}
	cluster, err := runtimecluster.New(rt)
	if err != nil {
		return fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	if err := mgr.Add(cluster); err != nil {
		return fmt.Errorf("adding the runtime cluster: %w", err)
	}
	if err := platform.Register(mgr, cluster, platform.Options{ExportName: exportName}); err != nil {
		return fmt.Errorf("registering the platform controller: %w", err)
	}
	if err := template.Register(mgr, cluster, template.Options{ExportName: exportName}); err != nil {
		return fmt.Errorf("registering the template controller: %w", err)
	}
	if err := instance.Register(mgr, cluster, instance.Options{
		ExportName: exportName, SweepMayDeleteMost: opts.sweepMayDeleteMost,
	}); err != nil {
		return fmt.Errorf("registering the instance controllers: %w", err)
	}
	return mgr.Start(ctx)
}

func newManager(opts controllersOptions, kcp *rest.Config) (ctrl.Manager, error) {
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
		Metrics:                 metricsserver.Options{BindAddress: opts.metricsAddress},
		HealthProbeBindAddress:  opts.probeAddress,
		LeaderElection:          opts.leaderElect,
		LeaderElectionID:        "sandbar-controllers",
		LeaderElectionNamespace: placement.SystemNamespace,
		// controller-runtime 0.24.1's priority queue can hand an item to a worker that has gone
		// and keep its lock: the manager then misses its grace period and the lease is held.
		Controller: config.Controller{UsePriorityQueue: new(false)},
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
