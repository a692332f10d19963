// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// wakes are the instances that wake, as far as this replica knows: somebody asked for them here
// while they slept, or the informers saw them resume. Each is forgotten after a while; requests to
// all others pay one look at an atomic number.
type wakes struct {
	limits  func() *Limits
	metrics *metrics
	probes  singleflight.Group
	some    atomic.Int64

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
	// changed is closed when something of the placement changes, and replaced.
	changed chan struct{}
	// held counts the requests that wait.
	held int
	// answered are the targets that were seen to accept connections.
	answered map[string]bool
	forget   *time.Timer
}

func newWakes(limits func() *Limits, m *metrics) *wakes {
	return &wakes{limits: limits, metrics: m, all: map[string]*wake{}}
}

// waking tells whether the instance may be on its way back.
func (w *wakes) waking(namespace string) bool {
	if w.some.Load() == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[namespace] != nil
}

// begin notes that a request found an instance asleep, or on its way back, and tells since when it
// wakes. The first one has the use of it written at once, whatever was written before it was
// asleep: however many requests come, that is one wake. told is whether that is done.
func (w *wakes) begin(at *place, timeout time.Duration, a *activity, told bool) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.enter(at.id.Namespace(), timeout)
	if !k.asked && suspension(at.instance) != "" {
		k.asked, k.resource = true, at.kind.resource.Resource
		if !told {
			a.due.Add(at.id.ID)
		}
	}
	return k.began
}

// enter returns the wake of a placement, and begins it. w.mu is held.
func (w *wakes) enter(namespace string, timeout time.Duration) *wake {
	k := w.all[namespace]
	if k == nil {
		k = &wake{began: time.Now(), changed: make(chan struct{}), answered: map[string]bool{}}
		// Twice as long as requests wait, so that a page can say that it has failed.
		k.forget = time.AfterFunc(2*timeout, func() { w.expire(namespace, k, timeout) })
		w.all[namespace] = k
		w.some.Add(1)
	}
	return k
}

func (w *wakes) expire(namespace string, k *wake, timeout time.Duration) {
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
func (w *wakes) remove(namespace string, k *wake) {
	k.forget.Stop()
	delete(w.all, namespace)
	w.some.Add(-1)
}

// hold counts a request that waits, if there is room; leave must be called when it does no more.
func (w *wakes) hold(namespace string) (leave func(), refused *refusal) {
	limits := w.limits()
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.enter(namespace, wakeTimeout)
	if k.held >= limits.InstanceHeld {
		return nil, tooMany(causeHeld, fmt.Sprintf("the instance is waking and %d requests wait for it, which is its limit: send it again in a moment", limits.InstanceHeld), time.Second)
	}
	if w.held >= limits.ServerHeld {
		return nil, tooMany(causeHeld, fmt.Sprintf("%d requests wait for instances that wake, which is the server's limit: send it again in a moment", limits.ServerHeld), time.Second)
	}
	k.held++
	w.held++
	w.metrics.holding.Inc()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		k.held--
		w.held--
		w.metrics.holding.Dec()
	}, nil
}

// changed returns what is closed at the next change of the placement.
func (w *wakes) changed(namespace string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.enter(namespace, wakeTimeout).changed
}

func targetKey(to *target) string {
	if to.pod != nil {
		return to.port + "." + to.pod.Name + "." + to.subresource
	}
	return to.port + "." + to.service
}

// answered tells whether the target was seen to accept connections since the instance woke.
func (w *wakes) answered(to *target) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.all[to.namespace]
	return k != nil && k.answered[targetKey(to)]
}

// answer notes that the target can be reached.
func (w *wakes) answer(to *target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.all[to.namespace]
	if k == nil {
		return
	}
	k.answered[targetKey(to)] = true
	if k.asked {
		k.asked = false
		w.metrics.wakes.observe(k.resource, time.Since(k.began), "")
	}
}

// probe tries whether the app accepts a connection, once for all who ask at the same time.
func (w *wakes) probe(ctx context.Context, d *direct, to *target) error {
	host := d.address(to).Host
	_, err, _ := w.probes.Do(host, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		conn, _, err := d.Dial(ctx, host)
		if err != nil {
			return nil, err
		}
		return nil, conn.Close()
	})
	return err
}

// parts is told what an informer sees of placements; requests that wait look again.
func (w *wakes) parts() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: w.stir, UpdateFunc: func(_, obj any) { w.stir(obj) }, DeleteFunc: w.stir,
	}
}

// instances is told what the informers see of the instances of all kinds.
func (w *wakes) instances() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: w.stir, DeleteFunc: w.stir,
		UpdateFunc: func(old, obj any) {
			before, _ := old.(*unstructured.Unstructured)
			after, _ := obj.(*unstructured.Unstructured)
			if before != nil && after != nil {
				w.turned(after.GetNamespace(), suspension(before) != "", suspension(after) != "")
			}
			w.stir(obj)
		},
	}
}

// turned is told whether an instance was and is suspended. One that resumes is waited for, also
// when nobody asked for it here: another replica may have woken it.
func (w *wakes) turned(namespace string, was, is bool) {
	if was == is {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.all[namespace]
	switch {
	case !is:
		w.enter(namespace, wakeTimeout)
	case k != nil && k.held == 0:
		w.remove(namespace, k)
	case k != nil:
		k.began, k.answered = time.Now(), map[string]bool{}
	}
}

// stir has requests that wait for a placement look again.
func (w *wakes) stir(obj any) {
	if w.some.Load() == 0 {
		return
	}
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	object, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.all[object.GetNamespace()]; k != nil {
		close(k.changed)
		k.changed = make(chan struct{})
	}
}

// stop forgets all wakes.
func (w *wakes) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for namespace, k := range w.all {
		w.remove(namespace, k)
	}
}

// Results of waiting for an instance, for the metric.
func heldResult(refused *refusal) string {
	switch {
	case refused == nil:
		return "served"
	case refused.cause == causeWakeTimeout:
		return "timeout"
	case refused.cause == causeClientGone:
		return "client_gone"
	}
	return "refused"
}
