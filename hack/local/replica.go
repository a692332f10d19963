// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
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
	return p.StartReplicaAs(ctx, "replica", args...)
}

// StartReplicaAs is StartReplica for one of several, each with a name of its own.
func (p *Provider) StartReplicaAs(ctx context.Context, name string, args ...string) (*Replica, error) {
	return p.StartReplicaOf(ctx, p.binary(), name, args...)
}

// StartReplicaOf is StartReplicaAs with another build of the provider, given by its path.
func (p *Provider) StartReplicaOf(ctx context.Context, binary, name string, args ...string) (*Replica, error) {
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
	r.process, err = p.start(ctx, name, r.URL, binary, slices.Concat([]string{
		"serve",
		"--kcp-kubeconfig", filepath.Join(p.Dir, "kcp-serve.kubeconfig"),
		"--runtime-kubeconfig", filepath.Join(p.Dir, "runtime-serve.kubeconfig"),
		"--listen-address", "127.0.0.1:" + port, "--dataplane-metrics-address", r.metrics,
		"--tls-cert-file", p.certs.cert, "--tls-key-file", p.certs.key,
		"--verbosity", strconv.Itoa(p.opts.Verbosity),
	}, p.drainArgs(), args))
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

// Ready returns the code that the probe of the replica answers, and what it says.
func (r *Replica) Ready(ctx context.Context) (code int, says string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.metrics+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	res, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("asking the replica's probe: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4096)) //nolint:forbidigo // 4096
	return res.StatusCode, strings.TrimSpace(string(body)), err
}

// Live is what lives in the memory of the replica after a collection, in bytes: heap and stacks.
func (r *Replica) Live(ctx context.Context) (float64, error) { return live(ctx, r.metrics) }

// Stop asks the replica to end and returns when it is gone.
func (r *Replica) Stop() error { return r.process.stop() }
