// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbar-provider is the provider: it prepares a workspace and a runtime cluster
// (init), makes placements for tenants' instances (controllers) and serves their verbs
// (serve); run does the last two in one process. roles prints what tenants may want, doctor
// checks a provider, baseline lets the controllers read the namespaces of Baselines, and restore-services
// gives Services their own pods back.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the build (-ldflags "-X main.version=…").
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "sandbar-provider: %v\n", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sandbar-provider",
		Short: "Turn a Kubernetes cluster into a sandbox service for the tenants of a kcp installation",
		// An error is printed once, by main, and the usage only when it was asked for.
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
	}
	root.AddCommand(newInitCommand(), newControllersCommand(), newServeCommand(), newRunCommand(), newRolesCommand(), newDoctorCommand(), newBaselineCommand(), newRestoreServicesCommand())
	return root
}
