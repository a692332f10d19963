// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

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
	ReasonConfigured  = "configured"
	ReasonReachable   = "pod_reachable"
	ReasonRefused     = "pod_refused_but_reachable"
	ReasonUnreachable = "pod_unreachable"
)

// chooser says which transport a request takes.
type chooser struct {
	mode      Mode
	direct    *direct
	apiServer *apiServer
	metrics   *record.Metrics
	log       *slog.Logger

	mu      sync.Mutex
	chosen  Mode      // empty while nothing was tried
	settled bool      // direct worked once; that stands
	until   time.Time // when a choice of apiServer is tried again
}

func newChooser(mode Mode, d *direct, a *apiServer, m *record.Metrics, log *slog.Logger) *chooser {
	c := &chooser{mode: mode, direct: d, apiServer: a, metrics: m, log: log}
	if mode != Auto { // of which the first request chooses
		c.choose(mode, ReasonConfigured)
	}
	return c
}

// pick returns the way to a target. In mode auto the first requests try to reach their
// pods themselves; later a new attempt is made by one request, while the others go on with what
// was chosen.
func (c *chooser) pick(ctx context.Context, t *locate.Target) Mode {
	c.mu.Lock()
	chosen := c.chosen
	probe := c.mode == Auto && !c.settled && !time.Now().Before(c.until)
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
func (c *chooser) conclude(err error) Mode {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.settled:
		// Another request has found out meanwhile.
	case err == nil:
		c.settled = true
		c.choose(Direct, ReasonReachable)
	case errors.Is(err, errNoEndpoint), errors.Is(err, errForeignEndpoint):
		// Nothing was tried. Whichever way is taken, it says what there is to say of that.
		if c.chosen == "" {
			return Direct
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		// The pod's machine answered, so there is a route.
		c.settled = true
		c.choose(Direct, ReasonRefused)
	default:
		c.until = time.Now().Add(probeAgain)
		c.choose(APIServer, ReasonUnreachable)
	}
	return c.chosen
}

func (c *chooser) choose(mode Mode, reason string) {
	if c.chosen == mode {
		return
	}
	c.chosen = mode
	c.metrics.Transport.Reset()
	c.metrics.Transport.WithLabelValues(string(mode), reason).Set(1)
	c.log.Info("transport to pods chosen", "mode", string(mode), "reason", reason)
}
