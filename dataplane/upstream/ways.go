// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
)

// Ways are the ways to pods: straight ones, and those through the runtime cluster's API server.
type Ways struct {
	*chooser

	filter  *headers.Filter
	limits  func() *limit.Limits
	metrics *record.Metrics
	buffers bufferPool
	// cleanings are those of what commands have left in pods.
	cleanings *turns
	log       *slog.Logger
}

// Options are what Ways are made of; all are needed.
type Options struct {
	Mode Mode
	// Runtime is the runtime cluster, with the provider's credential.
	Runtime *rest.Config
	Cache   *locate.RuntimeCache
	Changes *locate.Changes
	Filter  *headers.Filter
	Limits  func() *limit.Limits
	Metrics *record.Metrics
	Log     *slog.Logger
}

// New returns the ways to the pods of a runtime cluster. It fails if the configuration of the cluster has
// credentials that cannot be read.
func New(o Options) (*Ways, error) {
	throughAPIServer, err := newAPIServer(o.Runtime)
	if err != nil {
		return nil, err
	}
	tokens, err := newTokens(o.Cache.Secrets, o.Changes)
	if err != nil {
		return nil, err
	}
	straight := newDirect(o.Cache, tokens, o.Changes, o.Metrics)
	for _, result := range cleanResults { // a counter that appears with its first increment has no rate for it
		o.Metrics.LeftCommands.Get(result)
	}
	return &Ways{
		chooser: newChooser(o.Mode, straight, throughAPIServer, o.Metrics, o.Log),
		filter:  o.Filter, limits: o.Limits, metrics: o.Metrics,
		cleanings: newTurns(maxCleanings, maxWorkspaceCleanings), log: o.Log,
	}, nil
}

// IsDirect reports whether requests to a target go straight to its pod. In mode Auto it may try that.
func (w *Ways) IsDirect(ctx context.Context, to *locate.Target) bool {
	return w.pick(ctx, to) == Direct
}

// Reach returns nil if a pod behind a destination accepts a connection. Nothing is sent over it.
func (w *Ways) Reach(ctx context.Context, to locate.Destination) error {
	return w.direct.reach(ctx, to)
}

// HasReady reports whether a pod behind a target's Service is ready and may be dialled.
func (w *Ways) HasReady(to *locate.Target) bool {
	for range w.direct.ready(to.Destination()) {
		return true
	}
	return false
}

// CloseIdleConnections lets go of the connections that no request uses.
func (w *Ways) CloseIdleConnections() {
	w.direct.CloseIdleConnections()
	w.apiServer.CloseIdleConnections()
}
