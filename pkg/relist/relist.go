// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package relist lets an informer be told to list everything again.
//
// An informer of a custom resource keeps each object as the API server decoded it, under the schema
// that the kind had then: fields that came with a later schema are missing, and no event tells so,
// because the object itself has not changed. A change of a kind's schema therefore has to begin a new
// epoch of every cache that holds the kind.
package relist

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

// ListerWatcher is a cache.ListerWatcherWithContext whose watches can be ended, so that the informer on
// it lists again. Its zero value is of no use; make one with New.
type ListerWatcher struct {
	cache.ListerWatcherWithContext
	// listOnly is what the wrapped one says of streamed lists.
	listOnly bool

	mu      sync.Mutex
	watches map[*expiring]struct{}
}

// New wraps what an informer lists and watches by.
func New(of cache.ListerWatcher) *ListerWatcher {
	return &ListerWatcher{
		ListerWatcherWithContext: cache.ToListerWatcherWithContext(of),
		listOnly:                 watchlist.DoesClientNotSupportWatchListSemantics(of),
		watches:                  map[*expiring]struct{}{},
	}
}

// List implements cache.ListerWatcher.
func (l *ListerWatcher) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (l *ListerWatcher) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (l *ListerWatcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := l.ListerWatcherWithContext.WatchWithContext(ctx, options)
	if err != nil {
		return nil, err
	}
	e := &expiring{of: w, events: make(chan watch.Event), expire: make(chan struct{}), stopped: make(chan struct{})}
	e.forget = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watches, e)
	}
	l.mu.Lock()
	l.watches[e] = struct{}{}
	l.mu.Unlock()
	go e.run()
	return e, nil
}

// IsWatchListSemanticsUnSupported passes on what the wrapped one says; see package watchlist.
func (l *ListerWatcher) IsWatchListSemanticsUnSupported() bool { return l.listOnly }

// Renew ends the watches as an API server does whose history does not reach back far enough: the
// informer lists again, about a second later. What has changed between the two lists reaches its
// handlers; what the informer returns meanwhile is what it had.
func (l *ListerWatcher) Renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := range l.watches {
		e.expireOnce.Do(func() { close(e.expire) })
	}
}

// Every renews at each interval until ctx ends. It is for kinds of which few objects exist and whose
// schema nobody follows.
func (l *ListerWatcher) Every(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.Renew()
		case <-ctx.Done():
			return
		}
	}
}

// Informers returns what makes informers that list again at each interval until ctx ends; it fits
// cache.Options.NewInformer of controller-runtime. It is for caches of few objects, like Every.
func Informers(ctx context.Context, interval time.Duration) func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer {
	return func(of cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		source := New(of)
		go source.Every(ctx, interval)
		return cache.NewSharedIndexInformer(source, example, resync, indexers)
	}
}

// expiring is a watch that can be ended by an event that says that its history is too old.
type expiring struct {
	of     watch.Interface
	events chan watch.Event
	forget func()

	expireOnce, stopOnce sync.Once
	expire, stopped      chan struct{}
}

// ResultChan implements watch.Interface.
func (e *expiring) ResultChan() <-chan watch.Event { return e.events }

// Stop implements watch.Interface.
func (e *expiring) Stop() {
	e.stopOnce.Do(func() {
		close(e.stopped)
		e.of.Stop()
	})
}

// run passes events on until the watch ends, is stopped, or expires.
func (e *expiring) run() {
	defer close(e.events)
	defer e.forget()
	for {
		select {
		case event, open := <-e.of.ResultChan():
			if !open || !e.send(event) {
				return
			}
		case <-e.expire:
			e.of.Stop()
			expired := apierrors.NewResourceExpired("the schema of the kind may have changed")
			e.send(watch.Event{Type: watch.Error, Object: &expired.ErrStatus})
			return
		case <-e.stopped:
			return
		}
	}
}

// send reports whether the event was taken before the watch was stopped.
func (e *expiring) send(event watch.Event) bool {
	select {
	case e.events <- event:
		return true
	case <-e.stopped:
		return false
	}
}
