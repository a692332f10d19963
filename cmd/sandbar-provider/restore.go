// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/install"
)

func newRestoreServicesCommand() *cobra.Command {
	var kubeconfig, namespace string
	var dryRun bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "restore-services",
		Short: "Give Services that have proxies in front of them their own pods back",
		Long: `Give Services that have proxies in front of them (spec.routing.proxy of a Baseline) their own pods back: each from its annotation
sandbar.dev/original-selector alone. It needs an administrator's kubeconfig of the runtime cluster, and neither kcp nor the
controllers.

Controllers that run, and are asked for the proxies by a SandboxRoute, put them back: stop the controllers first, or disable
spec.routing.proxy of the Baseline instead, if the controllers work.`,
		Example: `  sandbar-provider restore-services --runtime-kubeconfig runtime.kubeconfig
  sandbar-provider restore-services --runtime-kubeconfig runtime.kubeconfig --namespace shop-staging --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Without a path it would be the current context of the person's own kubeconfig, which may be any cluster.
			if kubeconfig == "" {
				return errors.New("--runtime-kubeconfig is required: that of init")
			}
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("reading --runtime-kubeconfig: %w", err)
			}
			config = client.WithoutRedirects(config)
			config.UserAgent = userAgent
			report, err := install.RestoreServices(cmd.Context(), install.Options{Runtime: config, DryRun: dryRun, Timeout: timeout}, namespace)
			printReport(cmd.OutOrStdout(), report, dryRun)
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&kubeconfig, "runtime-kubeconfig", "", "kubeconfig of an administrator of the runtime cluster (required)")
	fs.StringVar(&namespace, "namespace", "", "namespace of the Services; empty means all")
	fs.BoolVar(&dryRun, "dry-run", false, "tell what would change and change nothing")
	fs.DurationVar(&timeout, "timeout", 2*time.Minute, "how long all of it may take")
	return cmd
}
