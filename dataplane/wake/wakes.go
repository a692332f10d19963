// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/dataplane/lifecycle"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
)

// Wakes are the instances that wake, as far as this replica knows: somebody asked for them here
// while they slept, or the informers saw them resume. Each is forgotten after a while; requests to
// all others pay one look at an atomic number.
type Wakes struct {
	Options

	probes singleflight.Group
	// patience is for how long an app may be deaf; tests have a shorter one.
	patience time.Duration
	some     atomic.Int64

	// mu guards what follows.
	mu sync.Mutex
	// all is by the placement's namespace.
	all  map[string]*wake
	held int
}

// wake is one instance that wakes.
type wake struct {
	began time.Time
	// asked is set when a request here found the instance asleep.
	asked    bool
	resource string
	// held counts the requests that wait.
	held int
	// answered are the targets that were seen to accept connections, deaf those whose pod is ready and
	// accepts none, by the time at which that was seen first.
	answered map[string]bool
	deaf     map[string]time.Time
	forget   *time.Timer
}

// Options are what Wakes are made of; all are needed.
type Options struct {
	Limits   func() *limit.Limits
	Changes  *locate.Changes
	Placer   *locate.Placer
	Ways     *upstream.Ways
	Activity *lifecycle.Activity
	Metrics  *record.Metrics
	// Draining ends when the server begins to shut down.
	Draining context.Context //nolint:containedctx // the server's life, not a request's
}

// New returns the wakes of a replica, of which there are none yet.
func New(o Options) *Wakes {
	return &Wakes{Options: o, patience: listenPatience, all: map[string]*wake{}}
}

// Waking reports whether the instance may be on its way back.
func (w *Wakes) Waking(namespace string) bool {
	if w.some.Load() == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[namespace] != nil
}

// Begin notes that a request found an instance asleep, or on its way back, and returns since when it
// wakes. The first one has the use of it recorded once more if it was recorded before it was asleep:
// however many requests come, that is one wake.
func (w *Wakes) Begin(at *locate.Place) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.enter(at.ID.Namespace(), at.Kind.WakeTimeout())
	if !k.asked && Suspension(at.Instance) != "" {
		k.asked, k.resource = true, at.Kind.Resource.Resource
		w.Activity.Wake(at.ID.ID)
	}
	return k.began
}

// enter returns the wake of a placement, and begins it. w.mu is held.
func (w *Wakes) enter(namespace string, timeout time.Duration) *wake {
	k := w.all[namespace]
	if k == nil {
		k = &wake{began: time.Now(), answered: map[string]bool{}, deaf: map[string]time.Time{}}
		// Twice as long as requests wait, so that a page can say that it has failed.
		k.forget = time.AfterFunc(2*timeout, func() { w.expire(namespace, k, timeout) })
		w.all[namespace] = k
		w.some.Add(1)
	}
	return k
}

func (w *Wakes) expire(namespace string, k *wake, timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.all[namespace] != k:
	case k.held > 0:
		k.forget.Reset(timeout)
	default:
		w.remove(namespace, k)
	}
}

// remove forgets a wake. w.mu is held.
func (w *Wakes) remove(namespace string, k *wake) {
	k.forget.Stop()
	delete(w.all, namespace)
	w.some.Add(-1)
}

// hold counts a request that waits, if there is room; leave must be called when it does no more.
func (w *Wakes) hold(namespace string) (leave func(), refused *refusal.Error) {
	limits := w.Limits()
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.enter(namespace, locate.DefaultWakeTimeout)
	if k.held >= limits.InstanceHeld {
		return nil, refusal.TooMany(refusal.CauseHeld, fmt.Sprintf("the instance is waking and %d requests wait for it, which is its limit: send it again in a moment", limits.InstanceHeld), time.Second)
	}
	if w.held >= limits.ServerHeld {
		return nil, refusal.TooMany(refusal.CauseHeld, fmt.Sprintf("%d requests wait for instances that wake, which is the server's limit: send it again in a moment", limits.ServerHeld), time.Second)
	}
	k.held++
	w.held++
	w.Metrics.Holding.Inc()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		k.held--
		w.held--
		w.Metrics.Holding.Dec()
	}, nil
}

func targetKey(to *locate.Target) string {
	if to.Pod != nil {
		return to.Port + "." + to.Pod.Name + "." + to.Subresource
	}
	return to.Port + "." + to.Service
}

// answered tells whether the target was seen to accept connections since the instance woke.
func (w *Wakes) answered(to *locate.Target) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.all[to.Namespace]
	return k != nil && k.answered[targetKey(to)]
}

// answer notes that the target can be reached.
func (w *Wakes) answer(to *locate.Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.all[to.Namespace]
	if k == nil {
		return
	}
	k.answered[targetKey(to)] = true
	if k.asked {
		k.asked = false
		w.Metrics.Wakes.Observe(k.resource, time.Since(k.began), "")
	}
}

// staysDeaf notes that a target's pod is ready and accepts no connection, and reports whether that has
// been so for longer than an app takes to begin. A pod whose runner is ready before its app shall not
// fail the request that wakes it; an app that never listens shall not hold each one for a minute.
func (w *Wakes) staysDeaf(to *locate.Target) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, key := w.enter(to.Namespace, locate.DefaultWakeTimeout), targetKey(to)
	since, known := k.deaf[key]
	if !known {
		since = time.Now()
		k.deaf[key] = since
	}
	return time.Since(since) >= w.patience
}

// away notes that a target has no ready pod: what was seen of a former one says nothing of the next.
func (w *Wakes) away(to *locate.Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.all[to.Namespace]; k != nil {
		delete(k.answered, targetKey(to))
		delete(k.deaf, targetKey(to))
	}
}

// probe tries whether the app accepts a connection, once for all who ask at the same time.
func (w *Wakes) probe(ctx context.Context, to *locate.Target) error {
	_, err, _ := w.probes.Do(to.Destination().Host(), func() (any, error) {
		return nil, w.Ways.Reach(context.WithoutCancel(ctx), to.Destination())
	})
	return err
}

// Instances is told what the informers see of the instances of all kinds.
func (w *Wakes) Instances() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: w.Changes.Stir, DeleteFunc: w.Changes.Stir,
		UpdateFunc: func(old, obj any) {
			before, _ := old.(*unstructured.Unstructured)
			after, _ := obj.(*unstructured.Unstructured)
			if before != nil && after != nil {
				w.turned(after.GetNamespace(), Suspension(before) != "", Suspension(after) != "")
			}
			w.Changes.Stir(obj) // who looks again finds what has turned
		},
	}
}

// turned is told whether an instance was and is suspended. One that resumes is waited for, also
// when nobody asked for it here: another replica may have woken it.
func (w *Wakes) turned(namespace string, was, is bool) {
	if was == is {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.all[namespace]
	switch {
	case !is:
		w.enter(namespace, locate.DefaultWakeTimeout)
	case k != nil && k.held == 0:
		w.remove(namespace, k)
	case k != nil:
		k.began, k.answered, k.deaf = time.Now(), map[string]bool{}, map[string]time.Time{}
	}
}

// Stop forgets all wakes.
func (w *Wakes) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for namespace, k := range w.all {
		w.remove(namespace, k)
	}
}

// Results of waiting for an instance, for the metric.
func heldResult(refused *refusal.Error) string {
	switch {
	case refused == nil:
		return "served"
	case refused.Cause == refusal.CauseWakeTimeout:
		return "timeout"
	case refused.Cause == refusal.CauseClientGone:
		return "client_gone"
	}
	return "refused"
}
