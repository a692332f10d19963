// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// isolationKinds are the kinds whose objects the provider puts into each placement; when somebody
// changes or deletes one, it is made right again.
func isolationKinds() []client.Object {
	return []client.Object{
		&corev1.Namespace{}, &corev1.Secret{}, &corev1.ResourceQuota{}, &corev1.LimitRange{}, &networkingv1.NetworkPolicy{},
		&coordinationv1.Lease{}, // its use, too
	}
}

// dispatcher wakes the instance that an object of the runtime cluster is part of. It has one handler
// on each kind of object, however many kinds of instances there are.
type dispatcher struct {
	// wake is told of the instance, with its Template, and wakeMember of the namespace of a member.
	wake       func(template string, req request, mayWait bool)
	wakeMember func(namespace string)
	// ours reports whether a namespace may be a placement of this provider: kcp would be asked about the instances of
	// another one on the runtime cluster with each of their events. Nil takes all for ours.
	ours func(namespace any) bool

	mu sync.RWMutex
	// owners are the instances that placements stand for, by namespace: nothing else says whose it is.
	owners map[string]owner
}

// owner is an instance and its Template.
type owner struct {
	template string
	req      request
	// member is set for a placement that has no owner yet, and holds its namespace.
	member string
}

// adoptedLately is for how long the look that the event of an adoption leads to may wait for others: the look that made the
// adoption has told it, and what is left is the finalizer.
const adoptedLately = 10 * time.Second

func newDispatcher(wake func(template string, req request, mayWait bool), wakeMember func(namespace string)) *dispatcher {
	return &dispatcher{wake: wake, wakeMember: wakeMember, owners: map[string]owner{}}
}

// tell wakes who an object belongs to.
func (d *dispatcher) tell(o owner, mayWait bool) {
	if o.member != "" {
		d.wakeMember(o.member)
		return
	}
	d.wake(o.template, o.req, mayWait)
}

// watch adds the handlers to the runtime cluster's cache, which need not have started.
func (d *dispatcher) watch(ctx context.Context, informers cache.Cache) error {
	pods := d.handler(d.ownerOf, outcome.PodMatters)
	if err := addHandler(ctx, informers, &corev1.Pod{}, pods); err != nil {
		return err
	}
	for _, obj := range isolationKinds() {
		handler := d.handler(d.ownerOf, always)
		if _, ok := obj.(*corev1.Namespace); ok {
			handler = export.OnEvents(d.namespaceChanged, always)
		}
		if err := addHandler(ctx, informers, obj, handler); err != nil {
			return err
		}
	}
	return nil
}

func addHandler(ctx context.Context, informers cache.Cache, obj client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := informers.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(handler)
	}
	if err != nil {
		return fmt.Errorf("watching %T of the runtime cluster: %w", obj, err)
	}
	return nil
}

// handler wakes for objects that come, go, or change in a way that matters.
func (d *dispatcher) handler(of func(obj metav1.Object, gone bool) (owner, bool), matters func(before, after any) bool) toolscache.ResourceEventHandler {
	return export.OnEvents(func(obj metav1.Object, initial, gone bool) {
		if o, ok := of(obj, gone); ok {
			d.tell(o, initial)
		}
	}, matters)
}

// always is for objects of which every change matters.
func always(_, _ any) bool { return true }

// ownerOfPlacement is the instance that a placement stands for, by its namespace.
func ownerOfPlacement(namespace metav1.Object) (owner, bool) {
	if _, ok := placement.MemberOf(namespace); ok {
		return owner{template: namespace.GetLabels()[placement.LabelTemplate], member: namespace.GetName()}, true
	}
	p, ok := placement.Of(namespace)
	return owner{template: namespace.GetLabels()[placement.LabelTemplate], req: requestOf(p)}, ok
}

// namespaceChanged wakes the owner of a placement. The claims that wait for a member go before one that has just got its own.
func (d *dispatcher) namespaceChanged(namespace metav1.Object, initial, gone bool) {
	o, ok := d.ownerOfNamespace(namespace, gone)
	if !ok {
		return
	}
	p, _ := placement.Of(namespace)
	lately := !gone && namespace.GetDeletionTimestamp() == nil && time.Since(p.Adopted.At) < adoptedLately
	d.tell(o, initial || lately)
}

// ownerOfNamespace is ownerOfPlacement, and remembers it for what lies there. One that is gone has none.
func (d *dispatcher) ownerOfNamespace(obj metav1.Object, gone bool) (owner, bool) {
	o, ok := ownerOfPlacement(obj)
	ok = ok && (d.ours == nil || d.ours(obj))
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok && !gone {
		d.owners[obj.GetName()] = o
	} else {
		delete(d.owners, obj.GetName())
	}
	return o, ok
}

// ownerOf is the instance of an object's namespace. A namespace that is not known yet is about to be, and
// wakes the instance itself.
func (d *dispatcher) ownerOf(obj metav1.Object, _ bool) (owner, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	o, ok := d.owners[obj.GetNamespace()]
	return o, ok
}
