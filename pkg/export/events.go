// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// OnEvents returns an informer's handler that calls f for objects that come, go, or change in a way that
// matters.
func OnEvents(f func(obj metav1.Object, initial, gone bool), matters func(before, after any) bool) toolscache.ResourceEventHandler {
	call := func(obj any, initial, gone bool) {
		if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if accessor, err := meta.Accessor(obj); err == nil {
			f(accessor, initial, gone)
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { call(obj, initial, false) },
		UpdateFunc: func(before, after any) {
			if matters(before, after) {
				call(after, false, false)
			}
		},
		DeleteFunc: func(obj any) { call(obj, false, true) },
	}
}

// tenantMatters reports whether a change of a tenant's object can change anything: its spec, what is
// copied of its metadata, its end. The status is the provider's, and writing it must not lead to looking
// at it again: an object whose refusal is told in other words each time kept a worker, and kcp, busy for
// ever.
func tenantMatters(before, after any) bool {
	old, err := meta.Accessor(before)
	if err != nil {
		return true
	}
	now, err := meta.Accessor(after)
	if err != nil {
		return true
	}
	return old.GetUID() != now.GetUID() || old.GetGeneration() != now.GetGeneration() ||
		!old.GetDeletionTimestamp().Equal(now.GetDeletionTimestamp()) || !equality.Semantic.DeepEqual(old.GetOwnerReferences(), now.GetOwnerReferences()) || !slices.Equal(old.GetFinalizers(), now.GetFinalizers()) ||
		!maps.Equal(old.GetLabels(), now.GetLabels()) || !maps.Equal(old.GetAnnotations(), now.GetAnnotations())
}
