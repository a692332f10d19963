// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"sync"
)

// turns bounds how much is under way at once, of all and of one workspace.
type turns struct {
	most, mostOfOne int

	mu    sync.Mutex
	all   int
	ofOne map[string]int
	// freed is closed, and made again, when something has ended.
	freed chan struct{}
}

func newTurns(most, mostOfOne int) *turns {
	return &turns{most: most, mostOfOne: mostOfOne, ofOne: map[string]int{}, freed: make(chan struct{})}
}

// begin waits for a turn of a workspace; done must be called at its end. ok is false if ctx ended before.
func (t *turns) begin(ctx context.Context, workspace string) (done func(), ok bool) {
	for {
		freed := t.take(workspace)
		if freed == nil {
			return func() { t.giveBack(workspace) }, true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// take takes a turn. If there is none it returns what is closed when there may be one.
func (t *turns) take(workspace string) (freed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all >= t.most || t.ofOne[workspace] >= t.mostOfOne {
		return t.freed
	}
	t.all++
	t.ofOne[workspace]++
	return nil
}

func (t *turns) giveBack(workspace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.ofOne[workspace]--; t.ofOne[workspace] == 0 {
		delete(t.ofOne, workspace)
	}
	close(t.freed)
	t.freed = make(chan struct{})
}
