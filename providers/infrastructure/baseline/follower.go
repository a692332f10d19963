// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

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

// knowledge is how much a watch knows.
type knowledge int

const (
	// looking: nothing is known yet.
	looking knowledge = iota
	// known: what there is has been listed, and changes are told.
	known
	// denied: the API server refuses the list or the watch.
	denied
)

// follower is one watch: of a kind in a namespace, or of one object. It goes on after every failure, as informers do.
type follower struct {
	informer cache.SharedIndexInformer
	// changed is told when something has changed that a status could show. It must not block for long.
	changed func()
	stop    context.CancelFunc

	mu sync.Mutex
	// refused is set while the API server says that this is not allowed.
	refused bool
	// listed is set once all handlers have seen what there is.
	listed bool
}

// follow starts a follower, whose goroutines are counted in wg. With a name it is of the one object that has it.
func follow(ctx context.Context, wg *sync.WaitGroup, client dynamic.Interface, gvr schema.GroupVersionResource, namespace, name string, changed func()) *follower {
	ctx, stop := context.WithCancel(ctx)
	f := &follower{changed: changed, stop: stop}
	f.informer = cache.NewSharedIndexInformerWithOptions(f.source(client, client.Resource(gvr).Namespace(namespace), name),
		&unstructured.Unstructured{}, cache.SharedIndexInformerOptions{ObjectDescription: gvr.String()})
	// These fail only once the informer runs. Without the second, client-go logs each try of what is not allowed.
	_ = f.informer.SetTransform(keep)
	_ = f.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	handled, _ := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, DeleteFunc: func(any) { changed() }, UpdateFunc: f.updated,
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

// source is what the informer lists and watches by. It notes whether it may.
func (f *follower) source(client dynamic.Interface, resource dynamic.ResourceInterface, name string) cache.ListerWatcher {
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
func (f *follower) answered(err error) {
	switch {
	case err == nil:
		f.set(func() { f.refused = false })
	case apierrors.IsForbidden(err):
		f.set(func() { f.refused = true })
	}
}

// set changes what is known, and tells if that is another state.
func (f *follower) set(change func()) {
	f.mu.Lock()
	before := f.knowledgeLocked()
	change()
	after := f.knowledgeLocked()
	f.mu.Unlock()
	if before != after {
		f.changed()
	}
}

func (f *follower) knowledgeLocked() knowledge {
	switch {
	case f.refused:
		return denied
	case f.listed:
		return known
	}
	return looking
}

func (f *follower) updated(before, after any) {
	was, ok := before.(*item)
	is, alsoOK := after.(*item)
	if !ok || !alsoOK || !was.same(is) {
		f.changed()
	}
}

// items returns what there is, and how much of it is known. What is not allowed is not there: it may be of a time when
// it was allowed. A nil follower follows what is not to be followed, and knows that there is nothing.
func (f *follower) items() ([]*item, knowledge) {
	if f == nil {
		return nil, known
	}
	f.mu.Lock()
	state := f.knowledgeLocked()
	f.mu.Unlock()
	if state != known {
		return nil, state
	}
	var list []*item
	for _, obj := range f.informer.GetStore().List() {
		if kept, ok := obj.(*item); ok {
			list = append(list, kept)
		}
	}
	return list, known
}
