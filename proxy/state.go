// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/proxyrules"
)

// state is the document that counts: the last one that is valid.
type state struct {
	service string
	log     *slog.Logger
	metrics *metrics

	// table is swapped as a whole: a request meets the rules of one document.
	table atomic.Pointer[proxyrules.Table]
	// draining is set while the document, or the end of the process, asks clients to close.
	draining atomic.Bool
	// onDrain is called when draining begins, and onTable when other rules count.
	onDrain func()
	onTable func(*proxyrules.Table)

	mu sync.Mutex
	// ports are those of the newest document, until they are settled. first is closed once there are any.
	ports   []intercept.Port
	settled bool
	first   chan struct{}
	// check refuses ports that lead to others than the Service's own pods.
	check func(ports []intercept.Port) error
	// ending is set when the process ends, so that no document ends the draining.
	ending bool
}

func newState(service string, log *slog.Logger, m *metrics) *state {
	s := &state{
		service: service, log: log, metrics: m, first: make(chan struct{}),
		onDrain: func() {}, onTable: func(*proxyrules.Table) {}, check: func([]intercept.Port) error { return nil },
	}
	s.table.Store(&proxyrules.Table{})
	return s
}

// apply takes a document over as a whole, or refuses it and keeps the one before. It implements what Documents call.
func (s *state) apply(document []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if document == nil {
		s.withdraw()
		return
	}
	config, table, err := proxyrules.Parse(document, s.service)
	if err == nil {
		err = s.check(config.Ports)
	}
	if err != nil {
		s.metrics.configErrors.Inc()
		s.log.Error("the document is refused, and the one before it stays", "key", intercept.Key(s.service), "error", err)
		return
	}
	switch {
	case s.ports == nil:
		s.ports = config.Ports
		defer close(s.first)
	case !s.settled:
		s.ports = config.Ports
	case !slices.Equal(s.ports, config.Ports):
		s.log.Warn("the ports of a proxy do not change while it runs: it listens where it did", "key", intercept.Key(s.service))
	}
	s.use(table)
	s.setDraining(config.Draining || s.ending)
	s.metrics.applied(table, time.Now())
	s.log.Info("the document is applied", "hash", table.Hash[:12], "rules", table.Rules, "draining", config.Draining)
}

// withdraw is for a document that is not there any more: without a rule all requests go to the baseline.
func (s *state) withdraw() {
	if s.table.Load().Rules > 0 {
		s.log.Warn("the document is gone: all requests go to the baseline", "key", intercept.Key(s.service))
	}
	s.use(&proxyrules.Table{})
	s.metrics.applied(s.table.Load(), time.Now())
}

// use has rules count from now on.
func (s *state) use(table *proxyrules.Table) {
	s.table.Store(table)
	s.onTable(table)
}

func (s *state) setDraining(draining bool) {
	if s.draining.Swap(draining) == draining || !draining {
		return
	}
	s.onDrain()
}

// end has clients asked to close for good.
func (s *state) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	s.setDraining(true)
}

// settle has ports be those at which the proxy listens from now on. It is false if there is a newer document with others.
func (s *state) settle(ports []intercept.Port) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.ports, ports) {
		return false
	}
	s.settled = true
	return true
}

// listensAt returns the ports that are settled, or else those of the newest document.
func (s *state) listensAt() []intercept.Port {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ports
}
