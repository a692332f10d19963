// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package runtimecluster

import (
	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// maxShared bounds the specs that are remembered to be shared; placements have four.
const maxShared = 64

// keeper makes the transform of what is cached: it drops the managed fields and the use of quotas,
// which nobody reads, and has the specs that are the same in all placements share one copy. Those
// would be a fifth of what a sleeping instance costs. The cache gives out copies, so that nobody
// changes what is shared.
func keeper() toolscache.TransformFunc {
	strip := cache.TransformStripManagedFields()
	specs, _ := lru.New[string, any](maxShared) // fails only for a size below one
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *networkingv1.NetworkPolicy:
			o.Spec = shared(specs, "policy/"+o.Name, o.Spec)
		case *corev1.LimitRange:
			o.Spec = shared(specs, "limits/"+o.Name, o.Spec)
		case *corev1.ResourceQuota:
			o.Spec, o.Status = shared(specs, "quota/"+o.Name, o.Spec), corev1.ResourceQuotaStatus{}
		}
		return strip(obj)
	}
}

// shared is the copy of the spec that an object of this name had last, if it is the same.
func shared[T any](specs *lru.Cache[string, any], name string, spec T) T {
	if last, ok := specs.Get(name); ok && equality.Semantic.DeepEqual(last, spec) {
		return last.(T)
	}
	specs.Add(name, spec)
	return spec
}
