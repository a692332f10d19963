// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/sandbar-dev/sandbar/bench/rival"
	"github.com/sandbar-dev/sandbar/bench/stage"
)

// Names of the ways to the pod.
const (
	sandbar = "relay"
	direct  = "direct"
	// bareGo accepts, dials and copies bytes both ways, and is nothing else: what the Go runtime
	// takes for a relay of its own.
	bareGo = "go"
	// nginx relays upgraded connections, in C and on one thread each.
	nginx = "nginx"
	// other is the data plane of another build (--other).
	other = "other"
)

// way is a way to the pod.
type way struct {
	name  string
	route stage.Route
}

// at is the way by an address that stands for the pod.
func at(name, address string) way { return way{name, stage.Route{Address: address}} }

// startRivals starts the others and lists all ways.
func startRivals(ctx context.Context, s *stage.Stage, g *rival.Group) ([]way, error) {
	ways := []way{at(direct, s.Pod)}
	address, err := rival.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	if err := g.Own(ctx, bareGo, "-be-relay", address, "-to", s.Pod); err != nil {
		return nil, err
	}
	ways = append(ways, at(bareGo, address))
	address, err = g.Nginx(ctx, nginx, filepath.Join(s.Stack.Dir, "bench-nginx-relay"), s.Pod,
		`proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"; proxy_read_timeout 1h;`)
	if err != nil {
		return nil, err
	}
	if address != "" {
		ways = append(ways, at(nginx, address))
	}
	g.PIDs[sandbar] = s.Replica.PID()
	if s.Other != nil {
		g.PIDs[other] = s.Other.PID()
		ways = append(ways, way{other, s.Through(s.Other)})
	}
	return append(ways, way{sandbar, s.Through(s.Replica)}), nil
}

// serveRelay is the bare relay.
func serveRelay(ctx context.Context, listen, to string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = l.Close() }) // or it would outlive the benchmark, which waits for it
	for {
		from, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting: %w", err)
		}
		pod, err := new(net.Dialer).DialContext(ctx, "tcp", to)
		if err != nil {
			return fmt.Errorf("reaching the pod: %w", err)
		}
		go pump(pod, from)
		go pump(from, pod)
	}
}

// pump copies until either side ends. Not io.Copy, which takes splice for each byte.
func pump(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
