// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Changes has requests look again when the informers see a change of their placement. While no
// request waits, an event costs one look at an atomic number.
type Changes struct {
	some atomic.Int64
	mu   sync.Mutex
	// waiting is by the placement's namespace; of an owner that has none yet, by ownerKey.
	waiting map[string]*waiting
}

// waiting are the requests that wait for a change of one placement.
type waiting struct {
	// changed is closed at the next change, and replaced.
	changed chan struct{}
	n       int
}

// NewChanges returns the changes for which nobody waits yet.
func NewChanges() *Changes { return &Changes{waiting: map[string]*waiting{}} }

// Await returns a function that gives the channel which is closed at the next change of a
// placement: call it before looking, so that no change is missed in between. done must be called
// when nobody waits any more.
func (c *Changes) Await(namespace string) (next func() <-chan struct{}, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[namespace]
	if w == nil {
		w = &waiting{changed: make(chan struct{})}
		c.waiting[namespace] = w
	}
	w.n++
	c.some.Add(1)
	next = func() <-chan struct{} {
		c.mu.Lock()
		defer c.mu.Unlock()
		return w.changed
	}
	return next, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.some.Add(-1)
		if w.n--; w.n == 0 {
			delete(c.waiting, namespace)
		}
	}
}

// Waiting is how many wait.
func (c *Changes) Waiting() int64 { return c.some.Load() }

// Handler is told what informers see.
func (c *Changes) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: c.Stir, UpdateFunc: func(_, obj any) { c.Stir(obj) }, DeleteFunc: c.Stir,
	}
}

// Stir has those look again who wait for the placement that an object is part of.
func (c *Changes) Stir(obj any) {
	if c.some.Load() == 0 {
		return
	}
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	object, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	of := object.GetNamespace()
	if namespace, is := object.(*corev1.Namespace); is {
		owner, _ := placement.OwnerOf(namespace)
		of = ownerKey(owner)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[of]; w != nil {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// Again calls try until it returns no error, or one for which lags is false, or patience is over:
// what one informer knows another may not know yet, and what is being mended is mended in a moment. It
// tries whenever something of the namespace changes, and once at the end: a pod reads its tokens again
// without a change that anybody here could see.
func Again[T any](ctx context.Context, c *Changes, namespace string, patience time.Duration, lags func(error) bool, try func() (T, error)) (T, error) {
	got, err := try()
	if err == nil || !lags(err) {
		return got, err
	}
	next, done := c.Await(namespace)
	defer done()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		changed := next()
		if got, err = try(); err == nil || !lags(err) {
			return got, err
		}
		select {
		case <-changed:
		case <-deadline.C:
			return try()
		case <-ctx.Done():
			return got, err
		}
	}
}
