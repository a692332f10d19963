// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
)

const (
	// adminTimeout bounds each part of a request to the admin port, and the time between two.
	adminTimeout = 10 * time.Second
	// MaxAdminConnections is how many connections the admin port has at most. More wait until one ends.
	//
	// The attack: a pod of the cluster opens connections to the admin port until the proxy has no memory left.
	MaxAdminConnections = 64
)

// admin serves /healthz, /readyz and /metrics, and forwards nothing.
func (p *Proxy) admin() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "alive\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reason := p.notReady(); reason != "" {
			http.Error(w, reason, http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintf(w, "ready, with document %s\n", p.state.table.Load().Hash)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return &http.Server{
		Handler: mux, ReadHeaderTimeout: adminTimeout, ReadTimeout: adminTimeout, WriteTimeout: adminTimeout, IdleTimeout: adminTimeout,
		MaxHeaderBytes: 8 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
}

// notReady says why connections should not come here; empty if they should.
func (p *Proxy) notReady() string {
	switch {
	case p.closed.Load():
		return "ending: no connection is accepted any more"
	case !p.bound.Load():
		return "there was no valid document yet, its baseline is not known to be the Service's, or its ports are not bound"
	case p.moved.Load():
		return "ending: the baseline has another address"
	}
	return p.reach.reason()
}

func listenAdmin(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for /healthz, /readyz and /metrics: %w", err)
	}
	return netutil.LimitListener(l, MaxAdminConnections), nil
}
