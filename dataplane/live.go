// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// live are the requests on their way to pods, by logical cluster, so that what happens to a
// workspace or to an instance is looked at at once. The requests' own timers do the work.
type live struct {
	// ownerOf tells whose the placement is that an object of the runtime cluster lies in, or is.
	ownerOf func(metav1.Object) (placement.Owner, bool)

	mu sync.Mutex
	// clusters hold the first of a list each: every request enters and leaves one.
	clusters map[string]*supervisor
}

func newLive(ownerOf func(metav1.Object) (placement.Owner, bool)) *live {
	return &live{ownerOf: ownerOf, clusters: map[string]*supervisor{}}
}

func (l *live) add(c *supervisor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.behind = l.clusters[c.owner.Cluster]; c.behind != nil {
		c.behind.before = c
	}
	l.clusters[c.owner.Cluster] = c
}

func (l *live) remove(c *supervisor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.before != nil:
		c.before.behind = c.behind
	case c.behind != nil:
		l.clusters[c.owner.Cluster] = c.behind
	default:
		delete(l.clusters, c.owner.Cluster)
	}
	if c.behind != nil {
		c.behind.before = c.before
	}
	c.before, c.behind = nil, nil
}

// recheck has requests in a cluster looked at again at once: those of one instance, or all.
func (l *live) recheck(cluster string, uid types.UID, since time.Time) {
	for _, c := range l.of(cluster, uid) {
		c.now(since)
	}
}

func (l *live) of(cluster string, uid types.UID) []*supervisor {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []*supervisor
	for c := l.clusters[cluster]; c != nil; c = c.behind {
		if uid == "" || c.owner.UID == uid {
			found = append(found, c)
		}
	}
	return found
}

// ends is told what an informer sees of placements: of their namespaces and of their instances.
// What begins to end has its requests ended: kcp, which may be slow, has nothing to add to that, and
// the pod, which ends too, must not be first, or the audit log would say that nothing was cut.
func (l *live) ends() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, next any) {
			before, okBefore := old.(metav1.Object)
			after, ok := next.(metav1.Object)
			if ok && okBefore && before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil {
				l.ended(after)
			}
		},
		DeleteFunc: func(gone any) {
			if unknown, ok := gone.(cache.DeletedFinalStateUnknown); ok {
				gone = unknown.Obj
			}
			if object, ok := gone.(metav1.Object); ok {
				l.ended(object)
			}
		},
	}
}

func (l *live) ended(object metav1.Object) {
	owner, ok := l.ownerOf(object)
	if !ok {
		return
	}
	namespace := object.GetNamespace()
	if _, is := object.(*corev1.Namespace); is {
		namespace = object.GetName()
	}
	for _, c := range l.of(owner.Cluster, owner.UID) {
		// An owner may have another placement for a moment, which the controllers remove.
		if c.id.Namespace() == namespace {
			c.placementEnds()
		}
	}
}
