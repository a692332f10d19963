// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Controllers are controllers beside the provider's own.
type Controllers struct {
	process *process
	metrics string // address
}

// StartControllers starts sandbar-provider controllers under a name, with further arguments, and waits until they are
// ready. With "--leader-elect=false" among them they act beside the provider's own, as a former leader does that has
// not noticed.
func (p *Provider) StartControllers(ctx context.Context, name string, args ...string) (*Controllers, error) {
	if err := p.Stack.stop(name); err != nil {
		return nil, err
	}
	metrics, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	probes, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	c := &Controllers{metrics: "127.0.0.1:" + metrics}
	c.process, err = p.start(ctx, name, "http://127.0.0.1:"+probes, p.binary(), append([]string{
		"controllers",
		"--kcp-kubeconfig", filepath.Join(p.Dir, "kcp.kubeconfig"),
		"--runtime-kubeconfig", filepath.Join(p.Dir, "runtime-controllers.kubeconfig"),
		"--controllers-metrics-address", c.metrics, "--controllers-probe-address", "127.0.0.1:" + probes,
		"--verbosity", strconv.Itoa(p.opts.Verbosity),
	}, args...))
	return c, err
}

// Metrics returns all metrics of the process as text.
func (c *Controllers) Metrics(ctx context.Context) (string, error) {
	var all strings.Builder
	if err := private(ctx, &all, c.metrics+"/metrics"); err != nil {
		return "", fmt.Errorf("reading the metrics: %w", err)
	}
	return all.String(), nil
}

// Kill ends the controllers at once (SIGKILL) and returns when they are gone.
func (c *Controllers) Kill() error { return c.process.signal(syscall.SIGKILL) }

// Stop asks the controllers to end and returns when they are gone.
func (c *Controllers) Stop() error { return c.process.stop() }
