// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/route"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/follow"
)

// gather is how long changes of other routes are gathered before the SandboxRoutes are looked at from which they may take requests.
const gather = 5 * time.Second

// seen is what is kept of an HTTPRoute: who has it, which requests it takes, and what the controllers of its Gateways say. Its
// filters and backends are not.
type seen struct {
	metav1.ObjectMeta

	// of is the SandboxRoute that it is made of; the zero value for those of others.
	of export.Key
	// takes are the requests that it is about; nil for one that nobody can read, which must not keep a status from being
	// written.
	takes *route.Parsed
	// status is what is said of one of ours.
	status any
}

// keep makes of an HTTPRoute what is kept.
func keep(u *unstructured.Unstructured) *seen {
	kept := &seen{of: ownerOf(u), ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(),
	}}
	kept.takes, _ = route.Parse(u)
	if kept.of != (export.Key{}) {
		kept.status = u.Object["status"]
	}
	return kept
}

func (s *seen) same(other *seen) bool {
	return s.UID == other.UID && s.of == other.of && s.Generation == other.Generation && equality.Semantic.DeepEqual(s.status, other.status)
}

// routes are the HTTPRoutes of the runtime cluster, followed from the first look at a SandboxRoute on.
type routes struct {
	client dynamic.Interface
	// wake has one SandboxRoute looked at, and wakeAll all.
	wake    func(export.Key)
	wakeAll func()
	// every is how long changes of other routes are gathered.
	every time.Duration

	once     sync.Once
	life     context.Context //nolint:containedctx // that of the informer, which begins within
	end      context.CancelFunc
	wg       sync.WaitGroup
	follower *follow.Follower[*seen]

	mu sync.Mutex
	// gathered are other routes that have changed since SandboxRoutes were looked at for it.
	gathered []*route.Parsed
}

func newRoutes(client dynamic.Interface) *routes {
	r := &routes{client: client, every: gather}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// run waits for the end of ctx, and returns when no goroutine is left.
func (r *routes) run(ctx context.Context) error {
	<-ctx.Done()
	r.once.Do(func() {}) // none begins from now on
	r.end()
	r.wg.Wait()
	return nil
}

// list returns the HTTPRoutes that there are, and how much of them is known.
func (r *routes) list() ([]*seen, follow.Knowledge) {
	r.once.Do(func() {
		r.follower = follow.Start(r.life, &r.wg, r.client, follow.Options[*seen]{
			Resource: httpRoutes, Keep: keep, Same: (*seen).same, Changed: r.changed,
		})
	})
	return r.follower.Items()
}

// changed has those SandboxRoutes looked at that a change is about: the one that an HTTPRoute is made of, or those from which
// another one may take requests, or no longer takes them.
func (r *routes) changed(about ...*seen) {
	if len(about) == 0 { // how much is known
		r.wakeAll()
	}
	for _, one := range about {
		switch {
		case one.of != (export.Key{}):
			r.wake(one.of)
		case one.takes != nil:
			r.gather(one.takes)
		}
	}
}

// gather notes a change of another route. All that come within the time are told at once.
func (r *routes) gather(foreign *route.Parsed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gathered = append(r.gathered, foreign)
	if len(r.gathered) == 1 {
		time.AfterFunc(r.every, r.tell)
	}
}

// tell has the SandboxRoutes looked at that the gathered changes may be about.
func (r *routes) tell() {
	r.mu.Lock()
	foreign := r.gathered
	r.gathered = nil
	r.mu.Unlock()
	all, _ := r.list()
	for _, one := range all {
		if one.of != (export.Key{}) && one.takes != nil && slices.ContainsFunc(foreign, one.takes.Meets) {
			r.wake(one.of)
		}
	}
}
