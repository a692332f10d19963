// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130

	// Those of programs that run others, like env and timeout; 126 and 127 come from the runner.
	exitOurs       = 125
	exitBrokenPipe = 141
)

// runProgram runs the program of this process, and ends the process with its exit code.
func runProgram(newRoot func() *cobra.Command) {
	quietLibraries()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // what does not end upon the first signal ends upon the second
	err := newRoot().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	os.Exit(report(os.Stderr, err, interrupted))
}

// quietLibraries drops what libraries log: commands say it in their own words.
func quietLibraries() { klog.SetLogger(logr.Discard()) }

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

// exitError is the exit code of a command in the sandbox; nothing is to be said of it.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("the command exited with code %d", e.code) }

// execError is a failure of ours, or of the start, where the exit code is otherwise the command's.
type execError struct {
	err  error
	code int
}

func (e *execError) Error() string { return e.err.Error() }

func (e *execError) Unwrap() error { return e.err }
