// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"sync"
	"time"
)

// pool keeps connections by host. Memory is bounded by MaxIdle; no goroutine waits: one timer
// looks after all of them.
type pool struct {
	mu    sync.Mutex
	idle  map[string][]*conn // newest last
	count int
	sweep *time.Timer
}

// take returns a connection that can carry a request, the one that was used last; nil if there is
// none, or if fresh is above 0 and that one has been idle for longer. What it finds unusable it closes.
func (p *pool) take(host string, fresh time.Duration) *conn {
	for {
		c := p.pop(host, fresh)
		if c == nil {
			return nil
		}
		if c.peer.Serves() && c.quiet() {
			return c
		}
		_ = c.Close()
	}
}

func (p *pool) pop(host string, fresh time.Duration) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := p.idle[host]
	if len(conns) == 0 {
		return nil
	}
	last := len(conns) - 1
	c := conns[last]
	if fresh > 0 && time.Since(c.since) > fresh {
		return nil // the others have been idle for longer still
	}
	conns[last] = nil
	// The slice stays, also when it is empty: the next put needs it. The sweep removes it.
	p.idle[host] = conns[:last]
	p.count--
	return c
}

// put keeps a connection, or closes it when there are enough.
func (p *pool) put(t *Transport, c *conn) {
	c.since = time.Now()
	if t.MaxAge > 0 && c.since.Sub(c.made) > t.MaxAge {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= or(t.MaxIdle, DefaultMaxIdle) || len(p.idle[c.host]) >= or(t.MaxIdlePerHost, DefaultMaxIdlePerHost) {
		_ = c.Close()
		return
	}
	if p.idle == nil {
		p.idle = map[string][]*conn{}
	}
	p.idle[c.host] = append(p.idle[c.host], c)
	p.count++
	if p.sweep == nil {
		timeout := or(t.IdleTimeout, DefaultIdleTimeout)
		p.sweep = time.AfterFunc(timeout, func() { p.expire(timeout) })
	}
}

// expire closes what has been idle for too long or has been closed by its peer.
func (p *pool) expire(timeout time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for host, conns := range p.idle {
		kept := conns[:0]
		for _, c := range conns {
			if time.Since(c.since) < timeout && c.quiet() {
				kept = append(kept, c)
				continue
			}
			_ = c.Close()
			p.count--
		}
		clear(conns[len(kept):])
		if p.idle[host] = kept; len(kept) == 0 {
			delete(p.idle, host)
		}
	}
	if p.sweep != nil && len(p.idle) > 0 {
		p.sweep.Reset(timeout / 2)
		return
	}
	p.sweep = nil
}

func (p *pool) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conns := range p.idle {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	clear(p.idle)
	p.count = 0
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
}
