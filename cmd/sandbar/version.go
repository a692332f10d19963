// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// installedVersion is the version of a program that was made by go install MODULE@VERSION, which stamps none.
func installedVersion(stamped string, info *debug.BuildInfo, ok bool) string {
	if stamped != unstamped || !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return stamped
	}
	return info.Main.Version
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this command line",
		Args:  cli.Named(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "sandbar version %s\n", version)
			return err
		},
	}
}
