// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/portforward"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// shutdownTimeout is how long requests may take to finish after an interrupt.
const shutdownTimeout = 3 * time.Second

func newPortForwardCommand(s *target) *cobra.Command {
	var port uint16
	cmd := &cobra.Command{
		Use:   "port-forward [KIND/]NAME [[LOCAL:]PORT...]",
		Short: "Serve what a sandbox serves on a port of this machine, as yourself, until interrupted",
		Long: `Serve what a sandbox serves on a port of this machine, until interrupted.

HTTP, server-sent events and WebSockets pass. Every program on this machine that reaches the
port acts as you on this sandbox; the port is on the loopback addresses alone, 127.0.0.1 and ::1.

With ports, which takes a kind with the verb port-forward, each one is carried as it is, whatever
is spoken there. LOCAL is the same number if left out, and a free one if 0.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Named("NAME")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && cmd.Flags().Changed("port") {
				return &cli.UsageError{Err: errors.New("--port is for the one port without PORTs; with them, say LOCAL:PORT")}
			}
			verb := "proxy"
			if len(args) > 1 {
				verb = "port-forward"
			}
			i, err := s.Instance(cmd.Context(), args[0], verb)
			if err != nil {
				return err
			}
			if ports := args[1:]; len(ports) > 0 {
				return cli.UntilInterrupted(cmd.Context(), forwardPorts(cmd, i, ports))
			}
			listeners, err := listenOnLoopback(cmd.Context(), port)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s\n", listeners[0].Addr())
			return cli.UntilInterrupted(cmd.Context(), serveUntil(cmd.Context(), listeners, i.Forward()))
		},
	}
	cmd.Flags().Uint16VarP(&port, "port", "p", 0, "local port; a free one if zero")
	return cmd
}

// forwardPorts carries connections to ports of the instance's pod.
func forwardPorts(cmd *cobra.Command, i *client.Instance, ports []string) error {
	if !i.Has(client.PortForwardVerb) {
		return &cli.UsageError{Err: fmt.Errorf("this kind has no verb %s: without ports, what it serves over HTTP is on a port of this machine", client.PortForwardVerb)}
	}
	err := i.ForwardPorts(cmd.Context(), ports, func(forwarded []portforward.ForwardedPort) {
		for _, p := range forwarded {
			fmt.Fprintf(cmd.OutOrStdout(), "127.0.0.1:%d to port %d\n", p.Local, p.Remote)
		}
	}, cmd.ErrOrStderr())
	if errors.Is(err, client.ErrPorts) {
		return &cli.UsageError{Err: fmt.Errorf("%s: each port is [LOCAL:]PORT, of numbers from 1 to 65535; LOCAL may be 0 for a free one", strings.Join(ports, " "))}
	}
	return err
}

// portTries is how often a free port is looked for that is free on all loopback addresses.
const portTries = 5

// listenOnLoopback listens on the loopback addresses, at the same port; a free one if it is 0.
func listenOnLoopback(ctx context.Context, port uint16) (listeners []net.Listener, err error) {
	addresses := client.LoopbackAddresses(ctx)
	for range portTries {
		number := strconv.Itoa(int(port))
		for _, address := range addresses {
			var listener net.Listener
			if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, number)); err != nil {
				break
			}
			listeners = append(listeners, listener)
			_, number, _ = net.SplitHostPort(listener.Addr().String())
		}
		if err == nil {
			return listeners, nil
		}
		for _, listener := range listeners {
			_ = listener.Close()
		}
		if listeners = nil; port != 0 {
			break
		}
	}
	return nil, fmt.Errorf("listening: %w: choose another --port, or 0 for a free one", err)
}

// serveUntil serves until the context ends.
func serveUntil(ctx context.Context, listeners []net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, len(listeners))
	for _, listener := range listeners {
		go func() { done <- server.Serve(listener) }()
	}
	select {
	case err := <-done:
		return errors.Join(fmt.Errorf("serving: %w", err), server.Close())
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close() // streams have no end of their own
	}
	for range listeners {
		<-done
	}
	if err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	return nil
}
