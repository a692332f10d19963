// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"sync"
	"time"
)

// endWithin is how long requests under way have at the end, when nothing is accepted any more.
const endWithin = 5 * time.Second

// goAway tells the connections of HTTP/2 to go away. Those of HTTP/1.1 are told with their next answer.
func (p *Proxy) goAway() {
	if !p.bound.Load() {
		return
	}
	for _, bound := range p.ports {
		bound.servers.goAway(p.passing)
	}
}

// drain ends the proxy. Clients are asked to close, by their answers, while new connections are still served: the nodes
// learn only by and by that this pod is not one of the Service any more. Idle connections are closed at the very end: a
// request may be on its way on one.
//
// It stays ready until it accepts nothing any more. A pod that ends gets connections only while its Service has no other that
// is ready, and then only if it is ready itself: when all proxies end at once, that is better than none.
func (p *Proxy) drain() {
	p.log.Info("draining", "within", p.opts.Drain)
	p.state.end()
	deadline := time.NewTimer(p.opts.Drain)
	defer deadline.Stop()
	settled := time.NewTimer(min(p.opts.Settle, p.opts.Drain))
	defer settled.Stop()
	<-settled.C
	select {
	case <-deadline.C:
	case <-p.clients.held.empty():
	}
	p.closed.Store(true)
	for _, bound := range p.ports {
		_ = bound.listener.Close()
	}
	p.endPassing()
	p.finish()
	p.clients.closeAll()
	p.serving.Wait()
	p.baseline.CloseIdleConnections()
	p.copies.CloseIdleConnections()
	p.log.Info("drained")
}

// finish gives requests under way a time to finish, those of the servers and those that are served without.
func (p *Proxy) finish() {
	var finishing sync.WaitGroup
	for _, bound := range p.ports {
		finishing.Go(func() { bound.servers.end(endWithin) })
	}
	within := time.NewTimer(endWithin)
	defer within.Stop()
	select {
	case <-p.answering.empty():
	case <-within.C:
	}
	finishing.Wait()
}
