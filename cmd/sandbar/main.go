// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbar is for the people who use sandboxes: it calls the verbs of their instances
// from a terminal or a script. It reads the same kubeconfig as kubectl.
//
// Data goes to stdout, progress and errors to stderr. It exits 0 for success, 1 for a failure,
// 2 for wrong usage, and 130 when it was interrupted; exec exits with the command's exit code.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the build (-ldflags "-X main.version=…").
var version = "dev"

const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	os.Exit(report(os.Stderr, err, interrupted))
}

// report tells a person of an error and returns the exit code.
func report(stderr io.Writer, err error, interrupted bool) int {
	var usage *usageError
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case interrupted:
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "sandbar: %s\n", explain(err))
		return exitUsage
	default:
		fmt.Fprintf(stderr, "sandbar: %s\n", explain(err))
		return exitFailure
	}
}

func newRootCommand() *cobra.Command {
	var s session
	root := &cobra.Command{
		Use:   "sandbar",
		Short: "Work with your sandboxes: live development, files, logs, previews",
		// An error is printed once, by main, and the usage only when it was asked for.
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		Args:          usage(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	s.addFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
			err = fmt.Errorf("--%s %q is no duration such as 90s or 2h30m, of at most %dh", invalid.GetFlag().Name, invalid.GetValue(), math.MaxInt64/time.Hour)
		}
		return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(
		newCopyCommand(&s), newDevCommand(&s), newEnvCommand(&s), newExecCommand(&s), newLogsCommand(&s), newOpenCommand(&s), newPortForwardCommand(&s),
		newRenewCommand(&s), newRestartCommand(&s), newSyncCommand(&s), newTrustCommand(&s),
	)
	return root
}

// usageError is a mistake in how the command was called.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usage makes what one of cobra's own checks finds a mistake in the call.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
		}
		return nil
	}
}

// named takes exactly the positional arguments that are named.
func named(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return &usageError{fmt.Errorf("%s takes %d argument(s): %v; see %s --help", cmd.Name(), len(names), names, cmd.CommandPath())}
		}
		return nil
	}
}
