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

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
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
	metrics   *record.Metrics
	log       *slog.Logger

	mu      sync.Mutex
	chosen  TransportMode // empty while nothing was tried
	settled bool          // direct worked once; that stands
	until   time.Time     // when a choice of apiServer is tried again
}

func newChooser(mode TransportMode, d *direct, a *apiServer, m *record.Metrics, log *slog.Logger) *chooser {
	c := &chooser{mode: mode, direct: d, apiServer: a, metrics: m, log: log}
	if mode != TransportAuto { // of which the first request chooses
		c.choose(mode, reasonConfigured)
	}
	return c
}

// pick returns the way to a target. In mode auto the first requests try to reach their
// pods themselves; later a new attempt is made by one request, while the others go on with what
// was chosen.
func (c *chooser) pick(ctx context.Context, t *locate.Target) TransportMode {
	c.mu.Lock()
	chosen := c.chosen
	probe := c.mode == TransportAuto && !c.settled && !time.Now().Before(c.until)
	if probe && chosen != "" {
		c.until = time.Now().Add(probeAgain)
	}
	c.mu.Unlock()
	if !probe {
		return chosen
	}
	// Nothing is sent, and so nothing said about the pod but that there is a way to it.
	return c.conclude(c.direct.reach(context.WithoutCancel(ctx), t.Destination()))
}

// conclude chooses by how the attempt to reach a pod ended.
func (c *chooser) conclude(err error) TransportMode {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.settled:
		// Another request has found out meanwhile.
	case err == nil:
		c.settled = true
		c.choose(TransportDirect, reasonReachable)
	case errors.Is(err, errNoEndpoint), errors.Is(err, errForeignEndpoint):
		// Nothing was tried. Whichever way is taken, it says what there is to say of that.
		if c.chosen == "" {
			return TransportDirect
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		// The pod's machine answered, so there is a route.
		c.settled = true
		c.choose(TransportDirect, reasonRefused)
	default:
		c.until = time.Now().Add(probeAgain)
		c.choose(TransportAPIServer, reasonUnreachable)
	}
	return c.chosen
}

func (c *chooser) choose(mode TransportMode, reason string) {
	if c.chosen == mode {
		return
	}
	c.chosen = mode
	c.metrics.Transport.Reset()
	c.metrics.Transport.WithLabelValues(string(mode), reason).Set(1)
	c.log.Info("transport to pods chosen", "mode", string(mode), "reason", reason)
}
