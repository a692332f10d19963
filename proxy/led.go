// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/proxyrules"
)

// led are the connections to copies that have left HTTP, such as those of WebSockets. A request ends by itself when its rule
// has gone; these may go on for days, with a copy that nobody leads anything to any more. They have the time of a drain then.
type led struct {
	within time.Duration

	mu    sync.Mutex
	table *proxyrules.Table
	conns map[*ledConn]struct{}
}

// ledConn is one of them.
type ledConn struct {
	sandbox, address string
	end              context.CancelFunc
	// ending, if set, ends it.
	ending *time.Timer
}

// begin holds a connection until done is called. The context ends with ctx, or when no rule has led to it for long enough.
func (l *led) begin(ctx context.Context, sandbox, address string) (of context.Context, done func()) {
	c := &ledConn{sandbox: sandbox, address: address}
	of, c.end = context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	l.look(c) // the rule may have gone since it was compared
	return of, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
		if c.ending != nil {
			c.ending.Stop()
		}
		c.end()
	}
}

// apply has the rules of a document count.
func (l *led) apply(table *proxyrules.Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table = table
	for c := range l.conns {
		l.look(c)
	}
}

// look has a connection end if no rule leads to it, or go on if one does again.
func (l *led) look(c *ledConn) {
	switch isLed := l.table.LeadsSandbox(c.sandbox, c.address); {
	case isLed && c.ending != nil:
		c.ending.Stop()
		c.ending = nil
	case !isLed && c.ending == nil:
		c.ending = time.AfterFunc(l.within, c.end)
	}
}
