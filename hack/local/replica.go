// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
)

// Replica is a data plane beside the provider's own, as another replica of serve would be.
type Replica struct {
	// URL is its base URL.
	URL string

	process *process
	metrics string // address
}

// StartReplica starts sandbar-provider serve with further arguments and waits until it is ready.
// With "--insecure" among them it serves plain HTTP. There is one at a time.
func (p *Provider) StartReplica(ctx context.Context, args ...string) (*Replica, error) {
	const name = "replica"
	if err := p.Stack.stop(name); err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	private, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	r := &Replica{URL: "https://localhost:" + port, metrics: "127.0.0.1:" + private}
	if slices.Contains(args, "--insecure") {
		r.URL = "http://127.0.0.1:" + port
	}
	r.process, err = p.start(ctx, name, r.URL, p.binary(), append([]string{
		"serve",
		"--kcp-kubeconfig", filepath.Join(p.Dir, "kcp.kubeconfig"),
		"--runtime-kubeconfig", filepath.Join(p.Dir, "runtime-serve.kubeconfig"),
		"--listen-address", "127.0.0.1:" + port, "--dataplane-metrics-address", r.metrics,
		"--tls-cert-file", p.certs.cert, "--tls-key-file", p.certs.key,
		"--verbosity", strconv.Itoa(p.opts.Verbosity),
	}, args...))
	return r, err
}

func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// PID is the process id of the replica.
func (r *Replica) PID() int { return r.process.cmd.Process.Pid }

// Live is what lives in the memory of the replica after a collection, in bytes: heap and stacks.
func (r *Replica) Live(ctx context.Context) (float64, error) { return live(ctx, r.metrics) }

// Stop asks the replica to end and returns when it is gone.
func (r *Replica) Stop() error { return r.process.stop() }
