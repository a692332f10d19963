// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
)

// The exit codes of sandbar; see the documentation of the program.
const (
	ExitFailure     = 1
	ExitUsage       = 2
	ExitInterrupted = 130

	// Those of programs that run others, like env and timeout; 126 and 127 come from the runner.
	ExitOurs       = 125
	ExitBrokenPipe = 141
)

// Main runs the program of this process, and ends the process with its exit code.
func Main(newRoot func() *cobra.Command) {
	QuietLibraries()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // what does not end upon the first signal ends upon the second
	err := newRoot().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	os.Exit(Report(os.Stderr, err, interrupted))
}

// QuietLibraries drops what libraries log: commands say it in their own words.
func QuietLibraries() { klog.SetLogger(logr.Discard()) }

// Report tells a person of an error and returns the exit code.
func Report(stderr io.Writer, err error, interrupted bool) int {
	var exit *ExitError
	var own *ExecError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	case interrupted:
		return ExitInterrupted
	case IsUsage(err):
		fmt.Fprintf(stderr, "sandbar: %s\n", Explain(err))
		return ExitUsage
	case errors.As(err, &own):
		fmt.Fprintf(stderr, "sandbar: %s\n", Explain(err))
		return own.Code
	default:
		fmt.Fprintf(stderr, "sandbar: %s\n", Explain(err))
		return ExitFailure
	}
}

// UntilInterrupted is the error of a command that goes on until it is interrupted: one that ends so
// says nothing, and its exit code does.
func UntilInterrupted(ctx context.Context, err error) error {
	if err == nil && ctx.Err() != nil {
		return &ExitError{ExitInterrupted}
	}
	return err
}

// UsageError is a mistake in how the command was called.
type UsageError struct{ Err error }

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error that it explains.
func (e *UsageError) Unwrap() error { return e.Err }

// IsUsage reports whether an error is a mistake in how the command was called.
func IsUsage(err error) bool {
	var flags *UsageError
	var call *session.UsageError
	var reference *object.ReferenceError
	var ambiguous *object.AmbiguousNameError
	return errors.As(err, &flags) || errors.As(err, &call) || errors.As(err, &reference) || errors.As(err, &ambiguous)
}

// ExitError is the exit code of a command in the sandbox; nothing is to be said of it.
type ExitError struct{ Code int }

// Error implements error.
func (e *ExitError) Error() string { return fmt.Sprintf("the command exited with code %d", e.Code) }

// ExecError is a failure of ours, or of the start, where the exit code is otherwise the command's.
type ExecError struct {
	// Err is what failed, and Code the exit code that tells it from one of the command in the sandbox.
	Err  error
	Code int
}

// Error implements error.
func (e *ExecError) Error() string { return e.Err.Error() }

// Unwrap returns the error that it explains.
func (e *ExecError) Unwrap() error { return e.Err }
