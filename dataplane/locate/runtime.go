// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// indexClaim finds the namespaces that claim to stand for an instance by its name.
	indexClaim = "claim"
	// indexOwner finds the namespaces of an owner's placements.
	indexOwner = "owner"
	// indexService finds the EndpointSlices of a Service.
	indexService = "service"
	// indexComponent finds the Pods and the Services of a component.
	indexComponent = "component"
)

// RuntimeCache is what the data plane knows of the runtime cluster, without a network hop: only
// objects that carry the label of a placement, and of these only what routing needs.
type RuntimeCache struct {
	Namespaces cache.SharedIndexInformer
	Services   cache.SharedIndexInformer
	Slices     cache.SharedIndexInformer
	Secrets    cache.SharedIndexInformer
	Pods       cache.SharedIndexInformer
}

// NewRuntimeCache returns a cache that is filled once it runs.
func NewRuntimeCache(client kubernetes.Interface) (*RuntimeCache, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(Placed), informers.WithTransform(strip))
	// By name, or RBAC would have to let the data plane, which everybody can reach, read every
	// Secret of the cluster, the controllers' credential among them.
	tokens := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(strip),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			Placed(o)
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, placement.ControlSecret).String()
		}))
	c := &RuntimeCache{
		Namespaces: factory.Core().V1().Namespaces().Informer(),
		Services:   factory.Core().V1().Services().Informer(),
		Slices:     factory.Discovery().V1().EndpointSlices().Informer(),
		Secrets:    tokens.Core().V1().Secrets().Informer(),
		Pods:       factory.Core().V1().Pods().Informer(),
	}
	if err := c.Namespaces.AddIndexers(cache.Indexers{indexClaim: claimOf, indexOwner: ownerOf, indexWorkspace: workspaceOf}); err != nil {
		return nil, fmt.Errorf("indexing namespaces: %w", err)
	}
	if err := c.Slices.AddIndexers(cache.Indexers{indexService: serviceOf}); err != nil {
		return nil, fmt.Errorf("indexing endpoint slices: %w", err)
	}
	if err := indexSessions(c.Services); err != nil {
		return nil, err
	}
	for _, of := range []cache.SharedIndexInformer{c.Pods, c.Services} {
		if err := of.AddIndexers(cache.Indexers{indexComponent: componentOf}); err != nil {
			return nil, fmt.Errorf("indexing components: %w", err)
		}
	}
	return c, nil
}

func (c *RuntimeCache) informers() map[string]cache.SharedIndexInformer {
	return map[string]cache.SharedIndexInformer{
		"namespaces": c.Namespaces, "services": c.Services, "endpointslices": c.Slices,
		"secrets": c.Secrets, "pods": c.Pods,
	}
}

// Watch has a handler told of everything that decides whether an instance can be reached.
func (c *RuntimeCache) Watch(handler cache.ResourceEventHandler) error {
	for name, informer := range map[string]cache.SharedIndexInformer{
		"namespaces": c.Namespaces, "services": c.Services, "endpointslices": c.Slices, "secrets": c.Secrets, "pods": c.Pods,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watching %s: %w", name, err)
		}
	}
	return nil
}

// Run keeps the cache until ctx ends; it returns when no goroutine of it is left.
func (c *RuntimeCache) Run(ctx context.Context, log *slog.Logger) {
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

// Ready tells whether all of it is known.
func (c *RuntimeCache) Ready() bool {
	for _, informer := range c.informers() {
		if !informer.HasSynced() {
			return false
		}
	}
	return true
}

// Lookup reads one object; nil if there is none. What it returns is shared: never write to it.
func Lookup[T any](informer cache.SharedIndexInformer, key string) *T {
	obj, found, err := informer.GetStore().GetByKey(key)
	if err != nil || !found {
		return nil
	}
	typed, _ := obj.(*T)
	return typed
}

// claims counts the namespaces that stand for instances of a Template under one name, and
// returns one of them.
func (c *RuntimeCache) claims(claim string) (one *corev1.Namespace, n int) {
	for ns := range c.claiming(claim) {
		one, n = ns, n+1
	}
	return one, n
}

// claiming yields the namespaces that stand for instances of a Template under one name.
func (c *RuntimeCache) claiming(claim string) iter.Seq[*corev1.Namespace] {
	return func(yield func(*corev1.Namespace) bool) {
		objs, _ := c.Namespaces.GetIndexer().ByIndex(indexClaim, claim) // fails only without the index
		for _, obj := range objs {
			if ns, ok := obj.(*corev1.Namespace); ok && !yield(ns) {
				return
			}
		}
	}
}

// placementOf returns the namespace of an owner's placement, and which one it is; nil if there is none.
// Most placements were made for their owner, and their namespace's name follows from it. Of an owner with
// several others, none is known to be the right one before the controllers have removed the rest.
func (c *RuntimeCache) placementOf(provider string, owner placement.Owner) (*corev1.Namespace, placement.Located) {
	cold := owner.Cold().Locate()
	if namespace := Lookup[corev1.Namespace](c.Namespaces, cold.Namespace()); namespace != nil && owns(provider, owner, namespace) {
		return namespace, cold
	}
	objs, _ := c.Namespaces.GetIndexer().ByIndex(indexOwner, ownerKey(owner)) // fails only without the index
	if len(objs) != 1 {
		return nil, placement.Located{}
	}
	namespace, _ := objs[0].(*corev1.Namespace)
	id, ok := placement.IDOf(namespace)
	if !ok || !owns(provider, owner, namespace) {
		return nil, placement.Located{}
	}
	return namespace, id.Locate()
}

// owns reports whether a namespace is labelled as an owner's placement. One that somebody made under the
// computed name, without the labels, is not.
func owns(provider string, owner placement.Owner, namespace *corev1.Namespace) bool {
	labelled, ok := placement.OwnerOf(namespace)
	return ok && labelled == owner && placement.ProviderOf(namespace) == provider
}

// OwnerOf tells whose the placement is that an object lies in, or is; ok is false if it lies in none that
// is known.
func (c *RuntimeCache) OwnerOf(obj metav1.Object) (owner placement.Owner, ok bool) {
	if namespace, is := obj.(*corev1.Namespace); is {
		return placement.OwnerOf(namespace)
	}
	namespace := Lookup[corev1.Namespace](c.Namespaces, obj.GetNamespace())
	if namespace == nil {
		return placement.Owner{}, false
	}
	return placement.OwnerOf(namespace)
}

// EndpointSlices yields the slices of a Service.
func (c *RuntimeCache) EndpointSlices(namespace, service string) iter.Seq[*discoveryv1.EndpointSlice] {
	return func(yield func(*discoveryv1.EndpointSlice) bool) {
		objs, _ := c.Slices.GetIndexer().ByIndex(indexService, namespace+"/"+service) // as above
		for _, obj := range objs {
			if slice, ok := obj.(*discoveryv1.EndpointSlice); ok && !yield(slice) {
				return
			}
		}
	}
}

// podsOf yields the Pods of a component.
func (c *RuntimeCache) podsOf(namespace, component string) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		objs, _ := c.Pods.GetIndexer().ByIndex(indexComponent, namespace+"/"+component) // fails only without the index
		for _, obj := range objs {
			if pod, ok := obj.(*corev1.Pod); ok && !yield(pod) {
				return
			}
		}
	}
}

// hasComponent reports whether there is a Service of a component: each has one, also while it has no Pods.
func (c *RuntimeCache) hasComponent(namespace, component string) bool {
	objs, _ := c.Services.GetIndexer().ByIndex(indexComponent, namespace+"/"+component) // as above
	return len(objs) > 0
}

// claimKey is what two placements must not share: cluster, Template, namespace and name. None
// of these can hold a slash.
func claimKey(provider, cluster, template, namespace, name string) string {
	return provider + "/" + cluster + "/" + template + "/" + namespace + "/" + name
}

func claimOf(obj any) ([]string, error) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, nil
	}
	p, ok := placement.Of(ns)
	if !ok {
		return nil, nil
	}
	return []string{claimKey(placement.ProviderOf(ns), p.Owner.Cluster, ns.Labels[placement.LabelTemplate], p.Object.Namespace, p.Object.Name)}, nil
}

func ownerKey(owner placement.Owner) string { return owner.Cluster + "/" + string(owner.UID) }

func ownerOf(obj any) ([]string, error) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, nil
	}
	p, ok := placement.Of(ns)
	if !ok {
		return nil, nil
	}
	return []string{ownerKey(p.Owner)}, nil
}

func serviceOf(obj any) ([]string, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, nil
	}
	return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
}

// componentOf indexes what a component is made of by its placement and its name.
func componentOf(obj any) ([]string, error) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return nil, nil
	}
	// The pod of a DevSession stands for the component that it is about, above all while the copy has none.
	component := cmp.Or(o.GetLabels()[placement.LabelComponent], o.GetLabels()[placement.LabelDevelops])
	if component == "" {
		return nil, nil
	}
	return []string{o.GetNamespace() + "/" + component}, nil
}

// strip drops what routing does not read, above all every key of a Secret but the control
// tokens: what is not in memory cannot leak from it.
func strip(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
		o.SetOwnerReferences(nil)
	}
	switch o := obj.(type) {
	case *corev1.Secret:
		kept := map[string][]byte{}
		for _, key := range []string{placement.ControlTokenKey, placement.ControlPreviousKey} {
			if token, ok := o.Data[key]; ok {
				kept[key] = token
			}
		}
		o.Data, o.StringData, o.Annotations = kept, nil, nil
	case *corev1.Pod:
		stripPod(o)
	case *corev1.Service:
		o.Spec, o.Status, o.Annotations = corev1.ServiceSpec{Ports: o.Spec.Ports, Selector: o.Spec.Selector}, corev1.ServiceStatus{}, nil
	}
	return obj, nil
}
