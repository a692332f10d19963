// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// ForwardPorts listens on the loopback address and carries each connection to a port of the pod, as
// kubectl port-forward does, until the context ends or the way to the pod is lost. Each port is
// "LOCAL:REMOTE", or one number for both; local port 0 takes a free one. ready gets the ports once
// they listen; what keeps one from it is written to notes. Errors of single connections are logged
// with klog. Ports that are written differently are [ErrPorts].
//
// A pod that refuses one connection ends them all, as with kubectl.
func (i *Instance) ForwardPorts(ctx context.Context, ports []string, ready func([]portforward.ForwardedPort), notes io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listening := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(tunnel{ctx, i}, []string{"127.0.0.1"}, ports, ctx.Done(), listening, io.Discard, notes)
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
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("forwarding ports: %w", err)
	}
	return nil
}

// tunnel makes the connection in which ports are forwarded. It implements httpstream.Dialer.
type tunnel struct {
	ctx context.Context //nolint:containedctx // the interface has none
	*Instance
}

// Dial implements httpstream.Dialer.
func (t tunnel) Dial(protocols ...string) (httpstream.Connection, string, error) {
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
