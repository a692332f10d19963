// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

func newRestartCommand(s *target) *cobra.Command {
	return &cobra.Command{
		Use:   "restart [KIND/]NAME",
		Short: "Restart the process in a sandbox; returns when the new one runs",
		Args:  cli.Named("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := s.Instance(cmd.Context(), args[0], "restart")
			if err != nil {
				return err
			}
			if err := i.Restart(cmd.Context()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s has been restarted.\n", args[0])
			return nil
		},
	}
}
