// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// variable is the name of a variable that the runner takes.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func newEnvCommand(s *target) *cobra.Command {
	var change client.EnvChange
	cmd := &cobra.Command{
		Use:   "env [KIND/]NAME [VARIABLE=VALUE...] [VARIABLE-...]",
		Short: "Set variables of the environment of a sandbox's process; VARIABLE- takes one back",
		Long: `Set variables of the environment of a sandbox's process, and take back those that end in "-".
Without any, it lists the names of those that are set; values are told to nobody. The process has
them from its next start on: --restart auto restarts it if something changed.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &cli.UsageError{Err: fmt.Errorf("env takes at least NAME; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if change.Restart != "" {
				if err := checkRestart(change.Restart); err != nil {
					return err
				}
			}
			change.Set = map[string]string{}
			for _, arg := range args[1:] {
				if name, value, ok := strings.Cut(arg, "="); ok {
					change.Set[name] = value
				} else if name, ok := strings.CutSuffix(arg, "-"); ok {
					change.Unset = append(change.Unset, name)
				} else {
					return &cli.UsageError{Err: fmt.Errorf("%q is neither VARIABLE=VALUE nor VARIABLE-", arg)}
				}
			}
			for _, name := range append(slices.Collect(maps.Keys(change.Set)), change.Unset...) {
				if !variable.MatchString(name) {
					return &cli.UsageError{Err: fmt.Errorf("%q is not the name of a variable: it has letters, digits and _, and does not begin with a digit", name)}
				}
			}
			i, err := s.Instance(cmd.Context(), args[0], "env")
			if err != nil {
				return err
			}
			var env *client.Env
			if len(args) == 1 {
				env, err = i.Env(cmd.Context())
			} else {
				env, err = i.SetEnv(cmd.Context(), change)
			}
			if err != nil {
				return err
			}
			for _, name := range env.Set {
				fmt.Fprintln(cmd.OutOrStdout(), termsafe.String(name))
			}
			switch {
			case env.RestartError != nil:
				return fmt.Errorf("the variables are set, and the process could not be restarted: %s", env.RestartError.Message)
			case env.Restarted:
				fmt.Fprintf(cmd.ErrOrStderr(), "%s has been restarted.\n", args[0])
			case env.Changed:
				fmt.Fprintf(cmd.ErrOrStderr(), "The process gets them when it starts next: sandbar restart %s\n", args[0])
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&change.Restart, "restart", "", "restart the process: never (the default), start, auto or always")
	return cmd
}
