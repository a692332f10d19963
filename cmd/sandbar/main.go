// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbar is for the people who use sandboxes: it calls the verbs of their instances
// from a terminal or a script. It reads the same kubeconfig as kubectl.
//
// Data goes to stdout, progress and errors to stderr. It exits 0 for success, 1 for a failure,
// 2 for wrong usage, and 130 when it was interrupted. exec and attach exit with the command's
// exit code, and with 125 for a failure of their own, 126 for a program that cannot be run and 127 for
// one that is not there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
)

// version is set by the build (-ldflags "-X main.version=…").
var version = "dev"

// unstamped is the version of a program whose build sets none.
const unstamped = "dev"

const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130

	// Those of programs that run others, like env and timeout; 126 and 127 come from the runner.
	exitOurs       = 125
	exitBrokenPipe = 141
)

func main() {
	quietLibraries()
	info, ok := debug.ReadBuildInfo()
	version = installedVersion(version, info, ok)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // what does not end upon the first signal ends upon the second
	err := newRootCommand().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	os.Exit(report(os.Stderr, err, interrupted))
}

// report tells a person of an error and returns the exit code.
func report(stderr io.Writer, err error, interrupted bool) int {
	var exit *exitError
	var own *execError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case interrupted:
		return exitInterrupted
	case isUsage(err):
		fmt.Fprintf(stderr, "sandbar: %s\n", explain(err))
		return exitUsage
	case errors.As(err, &own):
		fmt.Fprintf(stderr, "sandbar: %s\n", explain(err))
		return own.code
	default:
		fmt.Fprintf(stderr, "sandbar: %s\n", explain(err))
		return exitFailure
	}
}

func newRootCommand() *cobra.Command {
	var s target
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
		var mistake *usageError
		if unknown := unknownFlag(cmd, err); errors.As(unknown, &mistake) {
			return mistake
		} else if unknown != nil {
			err = unknown
		}
		return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	s.addCommands(root)
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

// addCommands adds the commands in the groups of sandbar --help.
func (s *target) addCommands(root *cobra.Command) {
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"start", "Start:", append([]*cobra.Command{newLoginCommand(s), newLogoutCommand(s), newBindCommand(s), newDoctorCommand(s), newWhoamiCommand(s), newCredentialCommand()},
			s.diagnosed([]*cobra.Command{newTrustCommand(s), newUntrustCommand(s)})...)},
		{"sandboxes", "Sandboxes:", append(s.diagnosed([]*cobra.Command{
			newCreateCommand(s), newGetCommand(s), newDescribeCommand(s), newLabelCommand(s), newAnnotateCommand(s),
			newApplyCommand(s), newEditCommand(s), newUpdateCommand(s), newDeleteCommand(s), newWaitCommand(s),
			newSuspendCommand(s), newResumeCommand(s), newRenewCommand(s),
		}), newClaimCommand(s))},
		{"develop", "Develop:", s.diagnosed([]*cobra.Command{
			newAttachCommand(s), newCopyCommand(s), newDevCommand(s), newEnvCommand(s), newExecCommand(s), newKillCommand(s),
			newLogsCommand(s), newOpenCommand(s), newPortForwardCommand(s), newRestartCommand(s), newSyncCommand(s), newTopCommand(s),
		})},
		{"catalogue", "Catalogue:", s.diagnosed([]*cobra.Command{newExplainCommand(s), newTemplatesCommand(s)})},
		{"program", "This program:", []*cobra.Command{newVersionCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, c := range s.completing(group.commands) {
			c.GroupID = group.id
			root.AddCommand(c)
		}
	}
	s.completeFlags(root)
	root.SetHelpCommandGroupID("program")
	root.SetCompletionCommandGroupID("program")
}

// quietLibraries drops what libraries log: commands say it in their own words.
func quietLibraries() { klog.SetLogger(logr.Discard()) }

// untilInterrupted is the error of a command that goes on until it is interrupted: one that ends so
// says nothing, and its exit code does.
func untilInterrupted(ctx context.Context, err error) error {
	if err == nil && ctx.Err() != nil {
		return &exitError{exitInterrupted}
	}
	return err
}

// usageError is a mistake in how the command was called.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// isUsage reports whether an error is a mistake in how the command was called.
func isUsage(err error) bool {
	var flags *usageError
	var call *session.UsageError
	var reference *object.ReferenceError
	var ambiguous *object.AmbiguousNameError
	return errors.As(err, &flags) || errors.As(err, &call) || errors.As(err, &reference) || errors.As(err, &ambiguous)
}

// atMost takes the positional argument that is named, or none.
func atMost(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return &usageError{fmt.Errorf("%s takes %s, or no argument; see %s --help", cmd.Name(), name, cmd.CommandPath())}
		}
		return nil
	}
}

// named takes exactly the positional arguments that are named.
func named(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(names) == 0 && len(args) > 0 {
			return &usageError{fmt.Errorf("%s takes no arguments; see %s --help", cmd.Name(), cmd.CommandPath())}
		}
		if len(args) != len(names) {
			return &usageError{fmt.Errorf("%s takes %s, and nothing else; see %s --help", cmd.Name(), strings.Join(names, " and "), cmd.CommandPath())}
		}
		return nil
	}
}
