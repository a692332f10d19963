// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbar-proxy is in front of a Service of a Baseline: it leads the requests that carry the ID of a sandbox to the
// sandbox's copies, and all others to the Service's own pods (package proxy).
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/sandbar-dev/sandbar/pkg/headroom"
	"github.com/sandbar-dev/sandbar/proxy"
)

// version is set when a release is linked.
var version = "dev"

// lookup stands for the DNS of the pod in tests.
var lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

func main() {
	switch err := run(os.Args[1:]); {
	case errors.Is(err, pflag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "sandbar-proxy:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var opts proxy.Options
	flags := pflag.NewFlagSet("sandbar-proxy", pflag.ContinueOnError)
	opts.AddFlags(flags)
	kubeconfig := flags.String("kubeconfig", "", "to read the ConfigMap with, outside of a cluster")
	showVersion := flags.Bool("version", false, "print the version")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *showVersion {
		fmt.Println(version)
		return nil
	}
	opts.Logger = slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if lookup != nil {
		opts.Lookup = lookup
	}
	config, err := connect(*kubeconfig)
	if err != nil {
		return err
	}
	documents, err := proxy.InConfigMap(config, opts.Namespace, opts.Service)
	if err != nil {
		return err
	}
	p, err := proxy.New(opts, documents)
	if err != nil {
		return err
	}
	switch limit, err := limitMemory(); {
	case err != nil: // it serves without one
		opts.Logger.Warn("the memory is not limited", "error", err)
	case limit > 0:
		opts.Logger.Info("the memory is limited", "bytes", limit)
	}
	defer headroom.Keep(proxy.GarbageHeadroom)()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go twice(cancel)
	return p.Run(ctx)
}

// twice drains at the first signal, and ends at the second.
func twice(drain context.CancelFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
	drain()
	<-signals
	os.Exit(1)
}
