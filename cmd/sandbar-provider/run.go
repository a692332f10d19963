// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sandbar-dev/sandbar/dataplane"
)

// newRunCommand is controllers and serve in one process, for one machine.
func newRunCommand() *cobra.Command {
	var conn, serving connections
	var controllers controllersOptions
	var opts dataplane.Options
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run controllers and serve in one process",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := prepareServe(&conn, &opts); err != nil {
				return err
			}
			found, err := conn.configs("controllers", opts.Logger)
			if err != nil {
				return err
			}
			serving.kcpKubeconfig = cmp.Or(serving.kcpKubeconfig, conn.kcpKubeconfig)
			serving.runtimeKubeconfig = cmp.Or(serving.runtimeKubeconfig, conn.runtimeKubeconfig)
			forServe, err := serving.configs("serve", opts.Logger)
			if err != nil {
				return err
			}
			if err := errors.Join(found.keep(cmd.Context(), metrics.Registry), forServe.keep(cmd.Context(), nil)); err != nil {
				return err
			}
			opts.Collectors = append(opts.Collectors, forServe.credentials)
			return keepAll(cmd.Context(), opts.Logger,
				component{"controllers", func(ctx context.Context) error { return runControllers(ctx, controllers, conn.exportName, found) }},
				component{"serve", func(ctx context.Context) error { return serve(ctx, opts, forServe) }},
			)
		},
	}
	conn.addFlags(cmd.Flags())
	// There is one process: nobody to take turns with, and a Lease that cannot be renewed would end it.
	controllers.addFlags(cmd.Flags(), false)
	// Each half keeps to its own narrow identity, also in one process.
	cmd.Flags().StringVar(&serving.kcpKubeconfig, "serve-kcp-kubeconfig", "",
		"kubeconfig with which the data plane uses the provider workspace; empty means that of --kcp-kubeconfig")
	cmd.Flags().StringVar(&serving.runtimeKubeconfig, "serve-runtime-kubeconfig", "",
		"kubeconfig with which the data plane uses the runtime cluster; empty means that of --runtime-kubeconfig")
	opts.AddFlags(cmd.Flags())
	return cmd
}

// component is a part of a process that runs until its context ends.
type component struct {
	name string
	run  func(ctx context.Context) error
}

const (
	// startTime is how long a component must have run to have started. One that ends sooner, the first
	// time, cannot run as it is configured, and ends the process so that its operator sees why.
	startTime = 10 * time.Second
	// againFirst and againMost bound the wait before a component that has ended is started again.
	againFirst = time.Second
	againMost  = 30 * time.Second
)

// keepAll runs components until ctx ends. One that ends by itself is started again, and the others
// notice nothing: the data plane serves while the controllers cannot reach kcp.
func keepAll(ctx context.Context, log *slog.Logger, components ...component) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range components {
		group.Go(func() error { return c.keep(ctx, log) })
	}
	return group.Wait()
}

// errEnded is what a component's end is called that is no error of its own.
var errEnded = errors.New("it ended without an error")

func (c component) keep(ctx context.Context, log *slog.Logger) error {
	for first, wait := true, againFirst; ; first = false {
		began := time.Now()
		err := c.run(ctx)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			err = errEnded
		}
		ran := time.Since(began)
		if first && ran < startTime {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if ran > againMost {
			wait = againFirst
		}
		log.Error("a component has ended: it is started again", "component", c.name, "after", wait, "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		wait = min(2*wait, againMost)
	}
}
