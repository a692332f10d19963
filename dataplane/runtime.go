// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// indexClaim finds the namespaces that claim to stand for an instance by its name.
	indexClaim = "claim"
	// indexService finds the EndpointSlices of a Service.
	indexService = "service"
)

// runtimeCache is what the data plane knows of the runtime cluster, without a network hop: only
// objects that carry the label of a placement, and of these only what routing needs.
type runtimeCache struct {
	namespaces cache.SharedIndexInformer
	services   cache.SharedIndexInformer
	slices     cache.SharedIndexInformer
	secrets    cache.SharedIndexInformer
	pods       cache.SharedIndexInformer
}

func newRuntimeCache(client kubernetes.Interface) (*runtimeCache, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(placed), informers.WithTransform(strip))
	c := &runtimeCache{
		namespaces: factory.Core().V1().Namespaces().Informer(),
		services:   factory.Core().V1().Services().Informer(),
		slices:     factory.Discovery().V1().EndpointSlices().Informer(),
		secrets:    factory.Core().V1().Secrets().Informer(),
		pods:       factory.Core().V1().Pods().Informer(),
	}
	if err := c.namespaces.AddIndexers(cache.Indexers{indexClaim: claimOf}); err != nil {
		return nil, fmt.Errorf("indexing namespaces: %w", err)
	}
	if err := c.slices.AddIndexers(cache.Indexers{indexService: serviceOf}); err != nil {
		return nil, fmt.Errorf("indexing endpoint slices: %w", err)
	}
	return c, nil
}

func (c *runtimeCache) informers() map[string]cache.SharedIndexInformer {
	return map[string]cache.SharedIndexInformer{
		"namespaces": c.namespaces, "services": c.services, "endpointslices": c.slices,
		"secrets": c.secrets, "pods": c.pods,
	}
}

// watch has a handler told of everything that decides whether an instance can be reached.
func (c *runtimeCache) watch(handler cache.ResourceEventHandler) error {
	for name, informer := range map[string]cache.SharedIndexInformer{
		"services": c.services, "endpointslices": c.slices, "secrets": c.secrets, "pods": c.pods,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watching %s: %w", name, err)
		}
	}
	return nil
}

// run keeps the cache until ctx ends; it returns when no goroutine of it is left.
func (c *runtimeCache) run(ctx context.Context, log *slog.Logger) {
	var wg sync.WaitGroup
	for name, informer := range c.informers() {
		wg.Go(func() { informer.RunWithContext(ctx) })
		wg.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				log.Debug("cache is filled", "objects", name)
			}
		})
	}
	wg.Wait()
}

// ready tells whether all of it is known.
func (c *runtimeCache) ready() bool {
	for _, informer := range c.informers() {
		if !informer.HasSynced() {
			return false
		}
	}
	return true
}

// lookup reads one object; nil if there is none. What it returns is shared: never write to it.
func lookup[T any](informer cache.SharedIndexInformer, key string) *T {
	obj, found, err := informer.GetStore().GetByKey(key)
	if err != nil || !found {
		return nil
	}
	typed, _ := obj.(*T)
	return typed
}

// claims counts the namespaces that stand for instances of a Template under one name, and
// returns one of them.
func (c *runtimeCache) claims(claim string) (one *corev1.Namespace, n int) {
	objs, _ := c.namespaces.GetIndexer().ByIndex(indexClaim, claim) // fails only without the index
	for _, obj := range objs {
		if ns, ok := obj.(*corev1.Namespace); ok {
			one, n = ns, n+1
		}
	}
	return one, n
}

// endpointSlices yields the slices of a Service.
func (c *runtimeCache) endpointSlices(namespace, service string) iter.Seq[*discoveryv1.EndpointSlice] {
	return func(yield func(*discoveryv1.EndpointSlice) bool) {
		objs, _ := c.slices.GetIndexer().ByIndex(indexService, namespace+"/"+service) // as above
		for _, obj := range objs {
			if slice, ok := obj.(*discoveryv1.EndpointSlice); ok && !yield(slice) {
				return
			}
		}
	}
}

// claimKey is what two placements must not share: cluster, Template, namespace and name. None
// of these can hold a slash.
func claimKey(cluster, template, namespace, name string) string {
	return cluster + "/" + template + "/" + namespace + "/" + name
}

func claimOf(obj any) ([]string, error) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, nil
	}
	id, instance, ok := placement.Owner(ns)
	if !ok {
		return nil, nil
	}
	return []string{claimKey(id.Cluster, ns.Labels[placement.LabelTemplate], instance.Namespace, instance.Name)}, nil
}

func serviceOf(obj any) ([]string, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, nil
	}
	return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
}

// strip drops what routing does not read, above all every key of a Secret but the control
// token: what is not in memory cannot leak from it.
func strip(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
		o.SetOwnerReferences(nil)
	}
	switch o := obj.(type) {
	case *corev1.Secret:
		token, ok := o.Data[placement.ControlTokenKey]
		o.Data, o.StringData, o.Annotations = nil, nil, nil
		if ok {
			o.Data = map[string][]byte{placement.ControlTokenKey: token}
		}
	case *corev1.Pod:
		stripPod(o)
	case *corev1.Service:
		o.Spec, o.Status, o.Annotations = corev1.ServiceSpec{Ports: o.Spec.Ports}, corev1.ServiceStatus{}, nil
	}
	return obj, nil
}
