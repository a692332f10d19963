// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main is the main function of a benchmark: it reads the flags, those that all have and those that
// the benchmark has declared, and runs it until it ends or is interrupted.
func Main(name string, run func(ctx context.Context, stack, results string) error) {
	stack := flag.String("stack", "dev", "name of the local stack")
	results := flag.String("results", "bench/results", "folder for the results")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *stack, *results)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench-%s: %v\n", name, err)
		os.Exit(1)
	}
}
