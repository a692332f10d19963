// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	kcpcache "github.com/kcp-dev/apimachinery/v2/pkg/cache"
	"github.com/kcp-dev/logicalcluster/v3"
	mcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/sandbar-dev/sandbar/pkg/pause"
)

const (
	// ProbeTimeout bounds the question whether a shard serves a kind: one that accepts connections and
	// answers nothing must not look as if it were about to.
	ProbeTimeout = 10 * time.Second

	// retryFirst and retryMost bound the backoff of a shard that cannot be followed yet: right after a
	// kind's export the virtual workspace answers 404 for a moment, and after a restart of kcp nobody
	// should wait long.
	retryFirst = 100 * time.Millisecond
	retryMost  = 10 * time.Second
)

// follower is one kind on one shard. It can be asked at once. Once it is followed it knows which objects
// there are, in all workspaces on that shard; of them it keeps the metadata only.
type follower struct {
	*Shard

	kind Kind
	log  logr.Logger
	// retried is called each time that the shard is tried again.
	retried func()
	// informer is nil until the shard has answered for the first time.
	informer atomic.Pointer[toolscache.SharedIndexInformer]

	stop    context.CancelFunc
	stopped chan struct{}
}

func newFollower(shard *Shard, kind Kind) *follower {
	return &follower{
		Shard: shard, kind: kind, log: logr.Discard(), retried: func() {},
		stop: func() {}, stopped: make(chan struct{}),
	}
}

// follow has the shard followed until close. It returns at once: a shard that does not answer keeps
// nobody waiting, and is tried again until it does.
func (f *follower) follow(handler toolscache.ResourceEventHandler) {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() {
		defer close(f.stopped)
		for retry := retryFirst; ctx.Err() == nil; retry = min(2*retry, retryMost) {
			err := f.watch(ctx, handler)
			if err == nil {
				return
			}
			f.log.V(1).Info("a shard cannot be followed yet: it is tried again", "url", f.URL, "cause", err.Error(), "after", retry)
			f.retried()
			_ = pause.For(ctx, retry)
		}
	}()
}

// watch checks that the virtual workspace serves the kind, and then follows it until ctx ends. The
// check matters: an informer that is told 404 or 503 would back off for up to half a minute.
func (f *follower) watch(ctx context.Context, handler toolscache.ResourceEventHandler) error {
	if err := f.probe(ctx); err != nil {
		return err
	}
	wildcard, err := mcpcache.NewWildcardCache(f.config, cache.Options{
		Scheme:           runtime.NewScheme(),
		HTTPClient:       f.httpClient,
		Mapper:           f.kind.mapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("building a cache for %s: %w", f.URL, err)
	}
	informer, _, _, err := wildcard.GetSharedInformer(f.kind.Metadata())
	if err != nil {
		return fmt.Errorf("building an informer for %s: %w", f.URL, err)
	}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("watching %s at %s: %w", f.kind.Resource, f.URL, err)
	}
	f.informer.Store(&informer)
	return wildcard.Start(ctx) // returns nil when stopped, and nothing else
}

// close stops following and waits until the informer's goroutines are gone.
func (f *follower) close() {
	f.stop()
	<-f.stopped
}

func (f *follower) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	client, err := f.Resource(EveryWorkspace, f.kind.GVR())
	if err != nil {
		return err
	}
	if _, err := client.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("looking for %s at %s: %w", f.kind.Resource, f.URL, err)
	}
	return nil
}

// knows reports whether the watch has shown the object of a key.
func (f *follower) knows(key Key) bool {
	_, found := f.shown(key)
	return found
}

// shown returns the metadata of the object of a key, and reports whether the watch has shown it.
func (f *follower) shown(key Key) (metav1.Object, bool) {
	informer := f.informer.Load()
	if informer == nil {
		return nil, false
	}
	obj, found, err := (*informer).GetStore().GetByKey(kcpcache.ToClusterAwareKey(key.Cluster, key.Namespace, key.Name))
	if err != nil || !found {
		return nil, false
	}
	accessor, err := meta.Accessor(obj)
	return accessor, err == nil
}

// each calls do for the metadata of every object that the watch has shown.
func (f *follower) each(do func(metav1.Object)) {
	informer := f.informer.Load()
	if informer == nil {
		return
	}
	for _, obj := range (*informer).GetStore().List() {
		if accessor, err := meta.Accessor(obj); err == nil {
			do(accessor)
		}
	}
}

// inWorkspace calls do for the metadata of every object that the watch has shown in one workspace.
func (f *follower) inWorkspace(cluster string, do func(metav1.Object)) {
	informer := f.informer.Load()
	if informer == nil {
		return
	}
	objs, _ := (*informer).GetIndexer().ByIndex(kcpcache.ClusterIndexName, kcpcache.ClusterIndexKey(logicalcluster.Name(cluster))) // fails only without the index, which each of kcp's informers has
	for _, obj := range objs {
		if accessor, err := meta.Accessor(obj); err == nil {
			do(accessor)
		}
	}
}
