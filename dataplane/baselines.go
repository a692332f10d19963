// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/relist"
)

var baselinesResource = sandbarv1alpha1.GroupVersion.WithResource("baselines")

// baselines follow the Baselines of the provider workspace. What is in them of the runtime cluster the controllers have
// written into their status: the data plane has no right to read their namespaces.
type baselines struct {
	informer cache.SharedIndexInformer
	source   *relist.ListerWatcher
}

func newBaselines(provider dynamic.Interface) (*baselines, error) {
	b := &baselines{}
	b.informer, b.source = relist.NewInformer(provider, baselinesResource, nil)
	if err := b.informer.SetTransform(decodeBaseline); err != nil {
		return nil, fmt.Errorf("watching Baselines: %w", err)
	}
	return b, nil
}

// run follows the Baselines until ctx ends. The data plane is ready without them: the verbs need none.
func (b *baselines) run(ctx context.Context) {
	var every sync.WaitGroup
	every.Go(func() { b.source.Every(ctx, locate.SchemaInterval) })
	b.informer.RunWithContext(ctx)
	every.Wait()
}

// known reports whether the Baselines that there are have been listed.
func (b *baselines) known() bool { return b.informer.HasSynced() }

// admitting returns the Baselines that admit the workspace with a path, sorted by name. The path is kcp's own; see
// baseline.Admits.
func (b *baselines) admitting(path string) []*sandbarv1alpha1.Baseline {
	var list []*sandbarv1alpha1.Baseline
	for _, obj := range b.informer.GetStore().List() {
		one, ok := obj.(*sandbarv1alpha1.Baseline)
		if ok && one.DeletionTimestamp.IsZero() && baseline.Admits(&one.Spec, path) {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b *sandbarv1alpha1.Baseline) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func decodeBaseline(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil // a tombstone, or decoded before
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	b := &sandbarv1alpha1.Baseline{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, b); err != nil {
		return nil, fmt.Errorf("decoding a Baseline: %w", err)
	}
	return b, nil
}
