// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package follow watches objects of the runtime cluster that the cache of package runtimecluster does not hold, because Sandbar
// has not made them, and that the controllers may not be allowed to read, or whose kind may not be served: those of Baselines, and
// the routes of Gateways. It begins and ends at any time.
//
// In: a kind, a namespace or a name, and what is to be kept of each object. Out: what there is, how much of that is known, and a
// call for each change.
package follow

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// Knowledge is how much a watch knows.
type Knowledge int

const (
	// Looking means that nothing is known yet.
	Looking Knowledge = iota
	// Known means that what there is has been listed, and changes are told.
	Known
	// Denied means that the API server refuses the list or the watch.
	Denied
	// Unserved means that the API server does not serve the kind.
	Unserved
)

// Options say what is followed, of each object of which a T is kept: a pointer to something that has a metav1.ObjectMeta.
type Options[T any] struct {
	Resource schema.GroupVersionResource
	// Namespace is where; empty for all, and for kinds of the whole cluster.
	Namespace string
	// Name has the one object followed that has it. Default: all.
	Name string
	// Keep makes of an object what is kept of it.
	Keep func(*unstructured.Unstructured) T
	// Same reports whether two differ in nothing that matters: a change between them is not told.
	Same func(before, after T) bool
	// Changed is told what an object was and is, of which one is missing if it came or went; and is told of none if how much is
	// known has changed. It must not block for long.
	Changed func(about ...T)
}

// Follower is one watch of objects, of each of which it keeps a T. It goes on after every failure, as informers do.
type Follower[T any] struct {
	informer cache.SharedIndexInformer
	options  Options[T]
	stop     context.CancelFunc

	mu sync.Mutex
	// refused is Denied or Unserved while the API server says so.
	refused Knowledge
	// listed is set once all handlers have seen what there is.
	listed bool
}

// Start follows objects until ctx ends, or Stop. Its goroutines are counted in wg.
func Start[T any](ctx context.Context, wg *sync.WaitGroup, client dynamic.Interface, o Options[T]) *Follower[T] {
	ctx, stop := context.WithCancel(ctx)
	f := &Follower[T]{options: o, stop: stop}
	f.informer = cache.NewSharedIndexInformerWithOptions(f.source(client, client.Resource(o.Resource).Namespace(o.Namespace), o.Name),
		&unstructured.Unstructured{}, cache.SharedIndexInformerOptions{ObjectDescription: o.Resource.String()})
	// These fail only once the informer runs. Without the second, client-go logs each try of what is not allowed.
	_ = f.informer.SetTransform(func(obj any) (any, error) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			return o.Keep(u), nil
		}
		return obj, nil // a tombstone, or kept before
	})
	_ = f.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	handled, _ := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { f.tell(obj) }, DeleteFunc: func(obj any) { f.tell(obj) }, UpdateFunc: f.updated,
	})
	wg.Go(func() { f.informer.RunWithContext(ctx) })
	wg.Go(func() {
		select {
		case <-handled.HasSyncedChecker().Done():
			f.set(func() { f.listed = true })
		case <-ctx.Done():
		}
	})
	return f
}

// Stop ends the watch.
func (f *Follower[T]) Stop() { f.stop() }

// source is what the informer lists and watches by. It notes whether it may.
func (f *Follower[T]) source(client dynamic.Interface, resource dynamic.ResourceInterface, name string) cache.ListerWatcher {
	narrowed := func(o metav1.ListOptions) metav1.ListOptions {
		if name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
		return o
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := resource.List(ctx, narrowed(o))
			f.answered(err)
			return list, err //nolint:wrapcheck // the informer decides by its type
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := resource.Watch(ctx, narrowed(o))
			f.answered(err)
			return w, err //nolint:wrapcheck // the informer decides by its type
		},
	}, client)
}

// answered notes an answer of the API server. A server that cannot be reached has not said that anything is not allowed,
// and what is known stays.
func (f *Follower[T]) answered(err error) {
	switch {
	case err == nil:
		f.set(func() { f.refused = Looking })
	case apierrors.IsForbidden(err):
		f.set(func() { f.refused = Denied })
	case apierrors.IsNotFound(err):
		f.set(func() { f.refused = Unserved })
	}
}

// set changes what is known, and tells if that is another state.
func (f *Follower[T]) set(change func()) {
	f.mu.Lock()
	before := f.knowledgeLocked()
	change()
	after := f.knowledgeLocked()
	f.mu.Unlock()
	if before != after {
		f.options.Changed()
	}
}

func (f *Follower[T]) knowledgeLocked() Knowledge {
	switch {
	case f.refused != Looking:
		return f.refused
	case f.listed:
		return Known
	}
	return Looking
}

func (f *Follower[T]) updated(before, after any) {
	was, ok := before.(T)
	is, alsoOK := after.(T)
	if !ok || !alsoOK || !f.options.Same(was, is) {
		f.tell(before, after)
	}
}

// tell tells of objects that have changed.
func (f *Follower[T]) tell(objects ...any) {
	var about []T
	for _, obj := range objects {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if kept, ok := obj.(T); ok {
			about = append(about, kept)
		}
	}
	f.options.Changed(about...)
}

// Items returns what there is, in no order, and how much of it is known. What is not allowed is not there: it may be of a time
// when it was allowed. A nil Follower follows what is not to be followed, and knows that there is nothing. What is returned must
// not be changed.
func (f *Follower[T]) Items() ([]T, Knowledge) {
	if f == nil {
		return nil, Known
	}
	f.mu.Lock()
	state := f.knowledgeLocked()
	f.mu.Unlock()
	if state != Known {
		return nil, state
	}
	var list []T
	for _, obj := range f.informer.GetStore().List() {
		if kept, ok := obj.(T); ok {
			list = append(list, kept)
		}
	}
	return list, Known
}
