// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"

	"golang.org/x/sync/errgroup"
)

// Relay makes the data plane, which listens on loopback, reachable at a free port of another address of this machine,
// such as one that pods reach. It ends with ctx, and returns the port.
func (p *Provider) Relay(ctx context.Context, address string) (port int, err error) {
	at, err := url.Parse(p.URL)
	if err != nil {
		return 0, fmt.Errorf("reading the data plane's address: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return 0, fmt.Errorf("listening at %s: %w", address, err)
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go relay(ctx, conn, net.JoinHostPort("127.0.0.1", at.Port()))
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port, nil //nolint:forcetypeassert // of a TCP listener
}

// relay copies both ways until one side has ended, or ctx has.
func relay(ctx context.Context, from net.Conn, address string) {
	defer from.Close()
	to, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })
	defer stop()
	var both errgroup.Group
	for _, way := range [][2]net.Conn{{to, from}, {from, to}} {
		both.Go(func() error {
			_, err := io.Copy(way[0], way[1])
			_, _ = from.Close(), to.Close()
			return err
		})
	}
	_ = both.Wait()
}
