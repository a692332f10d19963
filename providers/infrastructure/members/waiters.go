// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

// waiter is an instance that starts with a member or not at all (prewarm: Require).
type waiter struct {
	req     export.Key
	created time.Time
	// wake has the instance reconciled.
	wake func()
}

// before reports whether a waiter is served before another one: first come, first served.
func (w waiter) before(other waiter) bool {
	return cmp.Or(w.created.Compare(other.created), cmp.Compare(w.req.String(), other.req.String())) < 0
}

// waiters are the instances that wait for a member, by the key under which the members are found that they can take
// (warmKey). It is safe for concurrent use.
type waiters struct {
	mu    sync.Mutex
	keys  map[export.Key]string
	queue map[string]map[export.Key]waiter
}

func newWaiters() *waiters {
	return &waiters{keys: map[export.Key]string{}, queue: map[string]map[export.Key]waiter{}}
}

// join notes that an instance waits for a member with a key, and for no other any more. It joins before it looks for
// one: a member that comes up after that look wakes it.
func (w *waiters) join(key string, me waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys[me.req] != key {
		w.drop(me.req)
	}
	w.keys[me.req] = key
	if w.queue[key] == nil {
		w.queue[key] = map[export.Key]waiter{}
	}
	w.queue[key][me.req] = me
}

// leave notes that an instance does not wait any more, and wakes the next one: what the first did not take is for it.
func (w *waiters) leave(req export.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key, waits := w.keys[req]; waits {
		w.drop(req)
		w.wakeFirst(key)
	}
}

// offer wakes the first that waits for a member with a key, which can be taken now.
func (w *waiters) offer(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeFirst(key)
}

// ahead is how many are served before an instance that wants a member with a key.
func (w *waiters) ahead(key string, me waiter) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for req, other := range w.queue[key] {
		if req != me.req && other.before(me) {
			n++
		}
	}
	return n
}

// count is how many wait.
func (w *waiters) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.keys)
}

func (w *waiters) wakeFirst(key string) {
	if len(w.queue[key]) == 0 {
		return
	}
	first := slices.MinFunc(slices.Collect(maps.Values(w.queue[key])), func(a, b waiter) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	first.wake()
}

func (w *waiters) drop(req export.Key) {
	key := w.keys[req]
	delete(w.keys, req)
	delete(w.queue[key], req)
	if len(w.queue[key]) == 0 {
		delete(w.queue, key)
	}
}
