// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// probeTimeout bounds one look, so that a cluster that swallows packets is found unreachable.
const probeTimeout = 10 * time.Second

// probe looks at the runtime cluster again and again, and wakes the controller when what it
// sees has changed. No watch tells that a cluster is gone.
type probe struct {
	inspect  func(context.Context) (Runtime, error)
	interval time.Duration
	changed  chan event.GenericEvent

	mu     sync.Mutex
	found  Runtime
	err    error
	looked bool
}

func newProbe(inspect func(context.Context) (Runtime, error), interval time.Duration) *probe {
	return &probe{inspect: inspect, interval: interval, changed: make(chan event.GenericEvent)}
}

// last tells what was seen last; looked is false before the first look.
func (p *probe) last() (found Runtime, looked bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found, p.looked, p.err
}

// Start looks until the context ends.
func (p *probe) Start(ctx context.Context) error {
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		if p.look(ctx) {
			p.tell(ctx)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// tell wakes the controller.
func (p *probe) tell(ctx context.Context) {
	provider := &sandbarv1alpha1.InfrastructureProvider{}
	provider.Name = sandbarv1alpha1.InfrastructureProviderName
	select {
	case p.changed <- event.GenericEvent{Object: provider}:
	case <-ctx.Done():
	}
}

// look inspects once and tells whether the answer is another than the last one.
func (p *probe) look(ctx context.Context) (news bool) {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	found, err := p.inspect(bounded)
	if ctx.Err() != nil {
		return false // we are told to end, which says nothing about the cluster
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && found == (Runtime{}) {
		found = p.found // what it was is still worth knowing
	}
	// Reasons are compared and not texts: a text may name another port each time.
	news = !p.looked || found != p.found || reasonOf(err) != reasonOf(p.err)
	p.found, p.err, p.looked = found, err, true
	return news
}
