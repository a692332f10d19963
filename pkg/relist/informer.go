// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package relist

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// NewInformer returns an informer of unstructured objects, and what has it list them again. tweak, if it is
// not nil, narrows what is listed and watched.
func NewInformer(client dynamic.Interface, gvr schema.GroupVersionResource, tweak func(*metav1.ListOptions)) (cache.SharedIndexInformer, *ListerWatcher) {
	resource := client.Resource(gvr)
	options := func(o metav1.ListOptions) metav1.ListOptions {
		if tweak != nil {
			tweak(&o)
		}
		return o
	}
	source := New(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options(o))
		},
	}, client))
	return cache.NewSharedIndexInformerWithOptions(source, &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{
		ObjectDescription: gvr.String(),
	}), source
}
