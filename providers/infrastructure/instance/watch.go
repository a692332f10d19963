// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// watch makes a source of an informer that others use too. controller-runtime's own kind
// source never takes its handler back, so that each stopped kind would leave two goroutines
// and a growing buffer behind. A change that does not matter is not looked at.
func watch(informer cache.Informer, order *lanes, requestFor func(metav1.Object) (request, bool), matters func(before, after any) bool) source.TypedSource[request] {
	return source.TypedFunc[request](func(ctx context.Context, q queue) error {
		enqueue := func(obj any, initial bool) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			accessor, err := meta.Accessor(obj)
			if err != nil {
				return
			}
			if req, ok := requestFor(accessor); ok {
				order.add(q, req, initial)
			}
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc: enqueue,
			UpdateFunc: func(before, after any) {
				if matters(before, after) {
					enqueue(after, false)
				}
			},
			DeleteFunc: func(obj any) { enqueue(obj, false) },
		})
		if err != nil {
			return fmt.Errorf("adding an event handler: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) })
		return nil
	})
}

// always is for objects of which every change matters.
func always(_, _ any) bool { return true }

// requestForTenant is the request of a tenant's own object.
func requestForTenant(obj metav1.Object) (request, bool) {
	req := request{cluster: logicalcluster.From(obj).String()}
	req.Namespace, req.Name = obj.GetNamespace(), obj.GetName()
	return req, req.cluster != ""
}

// requestForOwner is the request of the tenant's object that an object on the runtime cluster
// stands for, if its kind is the Template's.
func requestForOwner(template string) func(metav1.Object) (request, bool) {
	return func(obj metav1.Object) (request, bool) {
		id, name, ok := placement.Owner(obj)
		if !ok || obj.GetLabels()[placement.LabelTemplate] != template {
			return request{}, false
		}
		return request{cluster: id.Cluster, NamespacedName: name}, true
	}
}
