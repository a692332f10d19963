// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command sandbar-runner runs inside a development sandbox: it keeps the app
// running and serves the control contract that docs/runner.md describes.
//
//	sandbar-runner               serve, configured by the environment
//	sandbar-runner supervise PROGRAM [ARGUMENT…]
//	                             serve, with PROGRAM as the app: before the command of an ordinary container
//	sandbar-runner install DIR   copy itself to DIR/sandbar-runner
//	sandbar-runner copy-up SOURCE VOLUME
//	                             copy a directory of the image into an empty volume (package copyup)
//	sandbar-runner healthcheck   exit 0 when the runner answers
//	sandbar-runner wait          exit 0 as soon as the runner answers
//	sandbar-runner version       print the version
//	sandbar-runner netcheck …    find out whether network policies hold, and names resolve (package netcheck)
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/pkg/netcheck"
	"github.com/sandbar-dev/sandbar/runner"
	"github.com/sandbar-dev/sandbar/runner/copyup"
)

// version is set when a release is linked.
var version = "dev"

// errUsage makes main print how the program is called.
var errUsage = errors.New("usage: sandbar-runner [supervise PROGRAM [ARGUMENT...] | install DIR | copy-up SOURCE VOLUME | healthcheck | wait | version | netcheck listen | netcheck dial OPEN BLOCKED | netcheck resolve BLOCKED]")

// exitError makes main end with it and say nothing.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func main() {
	var code exitError
	switch err := run(os.Args[1:]); {
	case errors.As(err, &code):
		os.Exit(int(code))
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "sandbar-runner:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 0:
		return serve(runner.ConfigFromEnv)
	case args[0] == "supervise" && len(args) > 1:
		return serve(func(environ []string) (runner.Config, error) {
			dir, err := os.Getwd()
			if err != nil {
				return runner.Config{}, err
			}
			return runner.Supervising(environ, args[1:], dir)
		})
	case args[0] == "install" && len(args) == 2:
		return runner.Install(args[1])
	case args[0] == "copy-up" && len(args) == 3:
		return copyUp(args[1], args[2])
	case args[0] == "healthcheck" && len(args) == 1:
		url, err := runner.HealthURL(os.Environ())
		if err != nil {
			return err
		}
		return runner.CheckHealth(context.Background(), url)
	case args[0] == "wait" && len(args) == 1:
		url, err := runner.HealthURL(os.Environ())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), runner.StartTimeout)
		defer cancel()
		return runner.WaitHealthy(ctx, url)
	case args[0] == "version" && len(args) == 1:
		fmt.Println(version)
		return nil
	case args[0] == "netcheck":
		return checkNetwork(args[1:])
	default:
		return errUsage
	}
}

// copyMemory is what a copy may take before the collector works harder: more than it needs in the worst case, and less than
// the container that docs/runner.md recommends.
const copyMemory = 48 << 20

// copyUp prints how the copy ended, and reports it to Kubernetes.
func copyUp(source, volume string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(copyMemory)
	}
	result := copyup.Run(ctx, copyup.Options{Source: source, Target: volume, Progress: os.Stderr})
	fmt.Fprintf(os.Stderr, "%s: %s\n", result.Reason, result.Message)
	// The exit code says as much as Kubernetes needs if the message cannot be written.
	if err := copyup.Report(copyup.TerminationLog, result); err != nil {
		fmt.Fprintln(os.Stderr, "sandbar-runner:", err)
	}
	if code := result.Reason.ExitCode(); code != 0 {
		return exitError(code)
	}
	return nil
}

func checkNetwork(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	switch {
	case len(args) == 1 && args[0] == "listen":
		return netcheck.Listen(ctx)
	case len(args) == 3 && args[0] == "dial":
		return exitError(netcheck.Dialer{}.Dial(ctx, args[1], args[2]))
	case len(args) == 2 && args[0] == "resolve":
		code, finding := netcheck.Resolver{}.Resolve(ctx, args[1], netcheck.Name)
		if finding != "" {
			fmt.Println(finding) // which the pod's status has then
		}
		return exitError(code)
	default:
		return errUsage
	}
}

// workingMemory is what the runner may take beside the log before the collector works harder: the
// container's memory is the app's, and a burst of files leaves garbage of many times what is held.
const workingMemory = 20 << 20

func serve(configure func(environ []string) (runner.Config, error)) error {
	// First, while no other program of this user runs in the container.
	if err := runner.HideMemory(); err != nil {
		return err
	}
	config, err := configure(os.Environ())
	if err != nil {
		return err
	}
	// Standard error has the runner's own lines: half a line of the app's must not stand before one.
	config.Version, config.Stdout, config.Stderr = version, os.Stdout, os.Stdout
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(config.LogBytes) + workingMemory)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// By this name the runner's own lines are told from its app's.
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil)).With("logger", logwire.RunnerLogger)
	return runner.Run(ctx, config, logger)
}
