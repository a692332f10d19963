// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"
)

// probeAgain is how long the choice of the API server stands before a pod is tried again: the
// pod that did not answer may have been the only one at fault.
const probeAgain = time.Minute

// Reasons for a choice of transport, for the metric and the log.
const (
	reasonConfigured  = "configured"
	reasonReachable   = "pod_reachable"
	reasonRefused     = "pod_refused_but_reachable"
	reasonUnreachable = "pod_unreachable"
)

// chooser says which transport a request takes.
type chooser struct {
	mode      TransportMode
	direct    *direct
	apiServer *apiServer
	metrics   *metrics
	log       *slog.Logger

	mu      sync.Mutex
	chosen  transport // nil while nothing was tried
	settled bool      // direct worked once; that stands
	until   time.Time // when a choice of apiServer is tried again
}

func newChooser(mode TransportMode, d *direct, a *apiServer, m *metrics, log *slog.Logger) *chooser {
	c := &chooser{mode: mode, direct: d, apiServer: a, metrics: m, log: log}
	switch mode {
	case TransportDirect:
		c.choose(d, TransportDirect, reasonConfigured)
	case TransportAPIServer:
		c.choose(a, TransportAPIServer, reasonConfigured)
	case TransportAuto: // the first request chooses
	}
	return c
}

// pick returns the transport for a target. In mode auto the first requests try to reach their
// pods themselves; later a new attempt is made by one request, while the others go on with what
// was chosen.
func (c *chooser) pick(ctx context.Context, t *target) transport {
	c.mu.Lock()
	chosen := c.chosen
	probe := c.mode == TransportAuto && !c.settled && !time.Now().Before(c.until)
	if probe && chosen != nil {
		c.until = time.Now().Add(probeAgain)
	}
	c.mu.Unlock()
	if !probe {
		return chosen
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	defer cancel()
	conn, _, err := c.direct.Dial(ctx, c.direct.address(t).Host)
	if err == nil {
		_ = conn.Close()
	}
	return c.conclude(err)
}

// conclude chooses by how the attempt to reach a pod ended.
func (c *chooser) conclude(err error) transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.settled:
		// Another request has found out meanwhile.
	case err == nil:
		c.settled = true
		c.choose(c.direct, TransportDirect, reasonReachable)
	case errors.Is(err, errNoEndpoint):
		// Nothing was tried. Whichever way is taken, it says that nothing is ready.
		if c.chosen == nil {
			return c.direct
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		// The pod's machine answered, so there is a route.
		c.settled = true
		c.choose(c.direct, TransportDirect, reasonRefused)
	default:
		c.until = time.Now().Add(probeAgain)
		c.choose(c.apiServer, TransportAPIServer, reasonUnreachable)
	}
	return c.chosen
}

func (c *chooser) choose(t transport, mode TransportMode, reason string) {
	if c.chosen == t {
		return
	}
	c.chosen = t
	c.metrics.transport.Reset()
	c.metrics.transport.WithLabelValues(string(mode), reason).Set(1)
	c.log.Info("transport to pods chosen", "mode", string(mode), "reason", reason)
}
