// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// shutdownTimeout is how long requests may take to finish after an interrupt.
const shutdownTimeout = 3 * time.Second

func newPortForwardCommand(s *session) *cobra.Command {
	var port uint16
	cmd := &cobra.Command{
		Use:   "port-forward NAME",
		Short: "Serve what a sandbox serves on a port of this machine, as yourself, until interrupted",
		Long: `Serve what a sandbox serves on a port of this machine, until interrupted.

HTTP, server-sent events and WebSockets pass. Every program on this machine that reaches the
port acts as you on this sandbox; the port is on the loopback address alone.`,
		Args: named("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := s.instance(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", address)
			if err != nil {
				return fmt.Errorf("listening: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s\n", listener.Addr())
			return serveUntil(cmd.Context(), listener, i.Forward())
		},
	}
	cmd.Flags().Uint16VarP(&port, "port", "p", 0, "local port; a free one if zero")
	return cmd
}

func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close() // streams have no end of their own
	}
	<-done
	if err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	return nil
}
