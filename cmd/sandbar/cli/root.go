// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Group is a group of commands in sandbar --help.
type Group struct {
	// ID is for the code, and Title for people.
	ID, Title string
	// Commands are those of the group, for a target.
	Commands func(*Target) []*cobra.Command
}

// NewRoot returns the program with the commands of groups, which share one target. The last group has help and completion,
// too.
func NewRoot(version string, groups ...Group) *cobra.Command {
	s := &Target{version: version}
	root := &cobra.Command{
		Use:   "sandbar",
		Short: "Work with your sandboxes: live development, files, logs, previews",
		// An error is printed once, by main, and the usage only when it was asked for.
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	s.addFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
			err = fmt.Errorf("--%s %q is no duration such as 90s or 2h30m, of at most %dh", invalid.GetFlag().Name, invalid.GetValue(), math.MaxInt64/time.Hour)
		}
		if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "int" {
			err = fmt.Errorf("--%s %q is not a whole number", invalid.GetFlag().Name, invalid.GetValue())
		}
		if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "uint16" {
			err = fmt.Errorf("--%s %q is no port: a port is a number from 1 to 65535", invalid.GetFlag().Name, invalid.GetValue())
		}
		var mistake *UsageError
		if unknown := unknownFlag(cmd, err); errors.As(unknown, &mistake) {
			return mistake
		} else if unknown != nil {
			err = unknown
		}
		return &UsageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.ID, Title: g.Title})
		for _, c := range s.completing(g.Commands(s)) {
			c.GroupID = g.ID
			root.AddCommand(c)
		}
		root.SetHelpCommandGroupID(g.ID)
		root.SetCompletionCommandGroupID(g.ID)
	}
	s.completeFlags(root)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = knownCommand, root.RunE
		case "help":
			c.Args = knownTopic
		}
	}
	hideInHelp(root)
	return root
}

// hideInHelp leaves the flags that choose an instance out of the help of commands that are not about one.
func hideInHelp(root *cobra.Command) {
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd != root && !takesInstance(cmd) {
			for _, name := range []string{"resource", "component"} {
				root.PersistentFlags().Lookup(name).Hidden = true
			}
		}
		show(cmd, args)
	})
}

// takesInstance reports whether a command is about an instance, whose kind --resource may name.
func takesInstance(c *cobra.Command) bool {
	return namesInstance(c) || c.Name() == "cp" || c.Name() == "doctor"
}

// namesInstance reports whether the first argument of a command is an instance.
func namesInstance(c *cobra.Command) bool { return strings.HasPrefix(c.Use, c.Name()+" [KIND/]NAME") }
