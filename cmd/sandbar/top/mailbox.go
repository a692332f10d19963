// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"sync"
)

// mailbox hands items of any number of goroutines to one. All that came since the last time are taken at once, so
// that a storm of changes costs one redraw, and not one for each.
type mailbox[T any] struct {
	// limit bounds the items that wait; the oldest are dropped. 0 means all are kept.
	limit int

	mu      sync.Mutex
	items   []T
	dropped int
	closed  bool
	// filled has a value when there is something to take.
	filled chan struct{}
}

func newMailbox[T any](limit int) *mailbox[T] {
	return &mailbox[T]{limit: limit, filled: make(chan struct{}, 1)}
}

func (m *mailbox[T]) put(items ...T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items = append(m.items, items...)
	if over := len(m.items) - m.limit; m.limit > 0 && over > 0 {
		m.items = append([]T(nil), m.items[over:]...)
		m.dropped += over
	}
	m.signal()
}

// close says that nothing follows.
func (m *mailbox[T]) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.signal()
}

func (m *mailbox[T]) signal() {
	select {
	case m.filled <- struct{}{}:
	default:
	}
}

// take waits for items, and returns them with how many were dropped before them. It reports false when nothing
// follows, or the context has ended.
func (m *mailbox[T]) take(ctx context.Context) (items []T, dropped int, more bool) {
	for {
		select {
		case <-ctx.Done():
			return nil, 0, false
		case <-m.filled:
		}
		m.mu.Lock()
		items, dropped, more = m.items, m.dropped, !m.closed
		m.items, m.dropped = nil, 0
		m.mu.Unlock()
		if len(items) > 0 || !more {
			return items, dropped, more
		}
	}
}
