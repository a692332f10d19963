// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandbar-dev/sandbar/install"
)

func newBaselineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "baseline",
		Short: "Let the controllers read the namespaces of Baselines",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newGrantCommand())
	return cmd
}

type grantOptions struct {
	kcpKubeconfig, runtimeKubeconfig string
	workspace, runtimeName           string
	all, dryRun                      bool
	timeout                          time.Duration
}

func (o *grantOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kcpKubeconfig, "kcp-kubeconfig", "", "kubeconfig of an administrator of the provider workspace (required)")
	fs.StringVar(&o.runtimeKubeconfig, "runtime-kubeconfig", "", "kubeconfig of an administrator of the runtime cluster (required)")
	fs.StringVar(&o.workspace, "workspace", "root:sandbar", "path of the provider workspace")
	fs.StringVar(&o.runtimeName, "runtime-name", "", "name of the provider on the runtime cluster, as for init")
	fs.BoolVar(&o.all, "all", false, "grant for all Baselines, and take the rights back where no Baseline is any more")
	fs.BoolVar(&o.dryRun, "dry-run", false, "tell what would change and change nothing")
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long to wait for one thing at most")
}

func newGrantCommand() *cobra.Command {
	var opts grantOptions
	cmd := &cobra.Command{
		Use:   "grant NAME...|--all",
		Short: "Write the Role by which the controllers read the namespaces of Baselines",
		Long: `Write a Role and a RoleBinding into each namespace of the Baselines that you name, so that the controllers can read
which Deployments, StatefulSets, Rollouts and Services there are, and the ConfigMaps, Secrets and volumes of which the
Baselines say that tenants get copies. --dry-run shows the namespaces, and what may be read in each: look at it first, if
others than you write Baselines.

For a Baseline with spec.routing.proxy.enabled it also lets the controllers put proxies in front of Services of these namespaces, and creates
what the proxies need: the ServiceAccount sandbar-proxy with a Role to read one ConfigMap.

With --all, the rights become those that all Baselines need: where no Baseline is any more, they are taken back, and so are those to
proxies where none admits them: their Services get their own pods.`,
		Example: `  sandbar-provider baseline grant storefront --kcp-kubeconfig kcp.kubeconfig --runtime-kubeconfig runtime.kubeconfig
  sandbar-provider baseline grant --all --dry-run --kcp-kubeconfig kcp.kubeconfig --runtime-kubeconfig runtime.kubeconfig`,
		RunE: func(cmd *cobra.Command, names []string) error {
			config, err := opts.config(names)
			if err != nil {
				return err
			}
			config.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			report, err := install.GrantBaselines(cmd.Context(), config, names)
			printReport(cmd.OutOrStdout(), report, opts.dryRun)
			return err
		},
	}
	opts.addFlags(cmd.Flags())
	return cmd
}

func (o *grantOptions) config(names []string) (install.Options, error) {
	config := install.Options{Workspace: o.workspace, RuntimeName: o.runtimeName, DryRun: o.dryRun, Timeout: o.timeout}
	if o.all == (len(names) > 0) {
		return config, errors.New("name the Baselines, or give --all for all of them")
	}
	if o.kcpKubeconfig == "" || o.runtimeKubeconfig == "" {
		return config, errors.New("--kcp-kubeconfig and --runtime-kubeconfig are required: those of init")
	}
	var err error
	config.KCP, config.Runtime, err = administrators(o.kcpKubeconfig, o.runtimeKubeconfig)
	return config, err
}
