// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

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
			if err := prepareServe(&conn, &opts); err != nil {
				return err
			}
			found, err := conn.configs("serve", opts.Logger)
			if err != nil {
				return err
			}
			if err := found.keep(cmd.Context(), nil); err != nil {
				return err
			}
			opts.Collectors = append(opts.Collectors, found.credentials)
			return serve(cmd.Context(), opts, found)
		},
	}
	conn.addFlags(cmd.Flags())
	opts.AddFlags(cmd.Flags())
	return cmd
}

func prepareServe(conn *connections, opts *dataplane.Options) error {
	if err := conn.validate(); err != nil {
		return err
	}
	if err := opts.Validate(); err != nil {
		return err
	}
	opts.Logger, opts.Version, opts.ExportName = conn.setUpLogging(), version, conn.exportName
	return nil
}

func serve(ctx context.Context, opts dataplane.Options, found clusters) error {
	defer headroom.Keep(dataplane.GarbageHeadroom)()
	opts.Names = found.names
	server, err := dataplane.New(opts, found.kcp, found.runtime)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
