// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/dataplane"
	"github.com/sandbar-dev/sandbar/pkg/headroom"
)

func newServeCommand() *cobra.Command {
	var conn connections
	var opts dataplane.Options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the verbs of the tenants' instances; any number of replicas",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kcp, rt, err := prepareServe(&conn, &opts)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), opts, kcp, rt)
		},
	}
	conn.addFlags(cmd.Flags())
	opts.AddFlags(cmd.Flags())
	return cmd
}

// newRunCommand is controllers and serve in one process, for one machine.
func newRunCommand() *cobra.Command {
	var conn connections
	var controllers controllersOptions
	var serveRuntime string
	var opts dataplane.Options
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run controllers and serve in one process",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kcp, rt, err := prepareServe(&conn, &opts)
			if err != nil {
				return err
			}
			serveConfig := rt
			if serveRuntime != "" {
				if serveConfig, err = runtimeConfig(serveRuntime); err != nil {
					return err
				}
			}
			group, ctx := errgroup.WithContext(cmd.Context())
			group.Go(func() error { return runControllers(ctx, controllers, conn.exportName, kcp, rt) })
			group.Go(func() error { return serve(ctx, opts, kcp, serveConfig) })
			return group.Wait()
		},
	}
	conn.addFlags(cmd.Flags())
	controllers.addFlags(cmd.Flags())
	// Each half keeps to its own narrow identity, also in one process.
	cmd.Flags().StringVar(&serveRuntime, "serve-runtime-kubeconfig", "",
		"kubeconfig with which the data plane uses the runtime cluster; empty means that of --runtime-kubeconfig")
	opts.AddFlags(cmd.Flags())
	return cmd
}

func prepareServe(conn *connections, opts *dataplane.Options) (kcp, rt *rest.Config, err error) {
	if err := conn.validate(); err != nil {
		return nil, nil, err
	}
	if err := opts.Validate(); err != nil {
		return nil, nil, err
	}
	opts.Logger, opts.Version, opts.ExportName = conn.setUpLogging(), version, conn.exportName
	return conn.configs()
}

func serve(ctx context.Context, opts dataplane.Options, kcp, rt *rest.Config) error {
	defer headroom.Keep(dataplane.GarbageHeadroom)()
	server, err := dataplane.New(opts, kcp, rt)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
