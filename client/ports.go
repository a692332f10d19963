// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

const (
	// PortForwardVerb is the verb of kinds whose pod's ports can be forwarded.
	PortForwardVerb = "port-forward"
	// tunnelPrefix begins the subprotocols that are SPDY in a WebSocket.
	tunnelPrefix = "SPDY/3.1+"
	// tunnelPing is how often a silent tunnel is asked whether it is there.
	tunnelPing = 10 * time.Second
)

// ErrPorts means that a port is not written as ForwardPorts says.
var ErrPorts = errors.New("reading the ports")

// ForwardPorts listens on the [LoopbackAddresses], on all of them at the same number, and carries each connection to a port of the pod, as
// kubectl port-forward does, until the context ends or the way to the pod is lost. Each port is
// "LOCAL:REMOTE", or one number for both; local port 0 takes a free one. ready gets the ports once
// they listen; what keeps one from it is written to notes. Ports that are written differently are
// [ErrPorts].
//
// A connection that the pod refuses ends alone, and the others go on. The reason is written to notes, for
// each port once until a connection to it succeeds or the reason is another one.
func (i *Instance) ForwardPorts(ctx context.Context, ports []string, ready func([]portforward.ForwardedPort), notes io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listening := make(chan struct{})
	way := &tunnel{ctx: ctx, Instance: i, notes: notes}
	forwarder, err := portforward.NewOnAddressesForStreaming(way, LoopbackAddresses(ctx), ports, ctx.Done(), listening, io.Discard, notes)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPorts, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err = <-ended:
	case <-listening:
		var forwarded []portforward.ForwardedPort
		if forwarded, err = forwarder.GetPorts(); err == nil {
			ready(forwarded)
			err = <-ended
		}
	}
	if err != nil && way.tunnels != nil {
		err = cmp.Or(way.tunnels.cause(), err)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("forwarding ports: %w", err)
	}
	return nil
}

// LoopbackAddresses are 127.0.0.1 and, on a machine that has it, ::1. Both are localhost, and programs such as Node.js
// take the first that the system names: to listen on one alone has them refused, or led to another program that
// listens on the other.
func LoopbackAddresses(ctx context.Context) []string {
	addresses := []string{"127.0.0.1"}
	if probe, err := new(net.ListenConfig).Listen(ctx, "tcp6", "[::1]:0"); err == nil {
		_ = probe.Close()
		addresses = append(addresses, "::1")
	}
	return addresses
}

// tunnel makes the connection in which ports are forwarded. It implements httpstream.Dialer.
type tunnel struct {
	ctx context.Context //nolint:containedctx // the interface has none
	*Instance
	notes   io.Writer
	tunnels *tunnels // once there is a first one
}

// Dial implements httpstream.Dialer.
func (t *tunnel) Dial(protocols ...string) (httpstream.Connection, string, error) {
	first, protocol, err := t.one(protocols)
	if err != nil {
		return nil, "", err
	}
	t.tunnels = newTunnels(first, func() (httpstream.Connection, error) {
		another, _, err := t.one(protocols)
		return another, err
	}, t.notes)
	return t.tunnels, protocol, nil
}

// one makes a tunnel.
func (t *tunnel) one(protocols []string) (httpstream.Connection, string, error) {
	offers := make([]string, 0, len(protocols))
	for _, protocol := range protocols {
		offers = append(offers, tunnelPrefix+protocol)
	}
	conn, res, err := wsconn.Dial(t.ctx, t.plane.http, t.URL(PortForwardVerb, "", nil), nil, maxExecOutput, offers...) //nolint:bodyclose // it has been read
	if err != nil {
		if res != nil && res.StatusCode >= http.StatusBadRequest {
			return nil, "", fmt.Errorf("calling %s: %w", PortForwardVerb, readError(res, PortForwardVerb))
		}
		return nil, "", fmt.Errorf("calling %s: %w", PortForwardVerb, err)
	}
	protocol, ok := strings.CutPrefix(conn.Subprotocol(), tunnelPrefix)
	if !ok {
		_ = conn.CloseNow()
		return nil, "", fmt.Errorf("calling %s: the data plane speaks none of %q", PortForwardVerb, offers)
	}
	stop := context.AfterFunc(t.ctx, func() { _ = conn.CloseNow() })
	// The messages are pieces of one stream, of any size.
	streams, err := spdy.NewClientConnectionWithPings(portforward.NewTunnelingConnection("port-forward", conn.Release()), tunnelPing)
	if err != nil {
		stop()
		_ = conn.CloseNow()
		return nil, "", fmt.Errorf("opening the tunnel: %w", err)
	}
	return streams, protocol, nil
}
