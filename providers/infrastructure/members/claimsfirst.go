// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"sync"
	"time"
)

// refillWaits is for how long a set may have to wait with a new member for claims that are being served.
const refillWaits = time.Second

// claimsFirst lets sets make members only while no instance is about to take one: a member that is made costs the API
// servers many times what a claim does, and every claim takes a member that its set makes another one for. The wait is
// bounded, so that a set fills up however many claims there are. It is safe for concurrent use.
type claimsFirst struct {
	mu      sync.Mutex
	serving int
	// idle is closed while nothing is served.
	idle chan struct{}
}

func newClaimsFirst() *claimsFirst {
	idle := make(chan struct{})
	close(idle)
	return &claimsFirst{idle: idle}
}

// serve notes that an instance is about to take a member, until done is called.
func (c *claimsFirst) serve() (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving == 0 {
		c.idle = make(chan struct{})
	}
	c.serving++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.serving--; c.serving == 0 {
			close(c.idle)
		}
	})
}

// wait waits until no instance is about to take a member, but not longer than refillWaits, or than ctx lasts.
func (c *claimsFirst) wait(ctx context.Context) {
	c.mu.Lock()
	idle := c.idle
	c.mu.Unlock()
	limit := time.NewTimer(refillWaits)
	defer limit.Stop()
	select {
	case <-idle:
	case <-limit.C:
	case <-ctx.Done():
	}
}
