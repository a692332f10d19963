// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// AtMost takes the positional argument that is named, or none.
func AtMost(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return &UsageError{fmt.Errorf("%s takes %s, or no argument; see %s --help", cmd.Name(), name, cmd.CommandPath())}
		}
		return nil
	}
}

// Named takes exactly the positional arguments that are named.
func Named(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(names) == 0 && len(args) > 0 {
			return &UsageError{fmt.Errorf("%s takes no arguments; see %s --help", cmd.Name(), cmd.CommandPath())}
		}
		if len(args) != len(names) {
			return &UsageError{fmt.Errorf("%s takes %s, and nothing else; see %s --help", cmd.Name(), strings.Join(names, " and "), cmd.CommandPath())}
		}
		return nil
	}
}

// knownCommand refuses a word after sandbar that is not a command.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return &UsageError{fmt.Errorf("there is no command %q%s; see %s --help", args[0], DidYouMean(args[0], "", names), root.CommandPath())}
}

// knownTopic refuses a word after sandbar help that is not a command.
func knownTopic(help *cobra.Command, args []string) error {
	found, rest, err := help.Root().Find(args)
	if err != nil || found.HasSubCommands() {
		return knownCommand(found, rest)
	}
	return nil
}

// unknownFlag explains a flag that a command does not have; it returns nil for another error.
func unknownFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return nil
	}
	// The flags of a command that does not exist are not those of sandbar itself.
	if !cmd.HasParent() && cmd.Flags().NArg() > 0 {
		return knownCommand(cmd, cmd.Flags().Args())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if unknown.GetSpecifiedShortnames() != "" {
		return nil
	}
	return fmt.Errorf("%w%s", err, DidYouMean(unknown.GetSpecifiedName(), "--", names))
}
