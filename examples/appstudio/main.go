// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command appstudio is a product that stands on Sandbar: people create projects, edit their files in the browser, see the
// log, use a shell, look at the app in a frame and share it. It holds no credential of its own, of kcp or of any cluster:
// each call carries the token of the person who asked for it, to kcp and to the data planes that --trust names.
// docs/integrating.md follows it file by file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandbar-dev/sandbar/client/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "appstudio: %v\n", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("appstudio", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:8090", "address to serve at, without TLS: leave it on this machine, or behind what ends TLS on it")
	kcp := flags.String("kcp", "", "URL of kcp, https://… (required)")
	kcpCA := flags.String("kcp-ca", "", "PEM file that verifies it; empty for the system's roots")
	trust := flags.String("trust", "", "file with the data planes that may get people's tokens, as sandbar trust writes it (required)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *kcp == "" || *trust == "" {
		return errors.New("--kcp and --trust are required")
	}
	sessions, err := newSessions(*kcp, *kcpCA, session.TrustStore{Path: *trust})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: newStudio(sessions), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	fmt.Fprintf(os.Stderr, "App Studio is at http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
