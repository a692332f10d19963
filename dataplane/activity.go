// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// activityWriters is how many Leases are written at once.
	activityWriters = 8
	// activityRetry and activityRetryMost bound how long a write that failed waits.
	activityRetry     = 50 * time.Millisecond
	activityRetryMost = 15 * time.Second
	// activityShards keeps requests of different instances from waiting for one lock.
	activityShards = 64
)

// activity notes when instances were used, and writes it into the Lease of each placement: at
// once when an instance is used after a while, which is what wakes it, and then once in an
// interval. It remembers the instances that were used within the last interval, or are being used
// now; each of them is in the informers' caches too, which take much more.
type activity struct {
	limits func() *Limits
	client kubernetes.Interface
	leases cache.SharedIndexInformer
	// due are the instances whose Lease is to be written. It holds each once, and gives none to
	// two writers.
	due     workqueue.TypedRateLimitingInterface[placement.ID]
	metrics *metrics
	log     *slog.Logger
	seed    maphash.Seed
	shards  [activityShards]activityShard
	// ended is closed when run has written all that it will.
	ended chan struct{}
}

type activityShard struct {
	mu   sync.RWMutex
	uses map[placement.ID]*use
}

// use is when one instance was used; times are nanoseconds since 1970.
type use struct {
	// open counts the requests that are under way.
	open atomic.Int64
	last atomic.Int64
	// written is what the Lease says at least.
	written atomic.Int64
	// timer has the use looked at again; the shard's lock guards it.
	timer *time.Timer
}

func (u *use) begin(now time.Time) {
	u.open.Add(1)
	u.last.Store(now.UnixNano())
}

// end is told that a request has ended; it may be nil, for a request that was no use.
func (u *use) end(now time.Time) {
	if u == nil {
		return
	}
	u.last.Store(now.UnixNano())
	u.open.Add(-1)
}

// isWritten tells whether the Lease says all that there is to say now.
func (u *use) isWritten(now time.Time, interval time.Duration) bool {
	written := u.written.Load()
	return u.last.Load() <= written && (u.open.Load() == 0 || now.UnixNano()-written < int64(interval))
}

// until is until when the instance has been used.
func (u *use) until(now time.Time) time.Time {
	if u.open.Load() > 0 {
		return now
	}
	return time.Unix(0, u.last.Load())
}

func newActivity(limits func() *Limits, client kubernetes.Interface, m *metrics, log *slog.Logger) (*activity, error) {
	a := &activity{
		limits: limits, client: client, metrics: m, log: log, seed: maphash.MakeSeed(), ended: make(chan struct{}),
		due: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[placement.ID](activityRetry, activityRetryMost)),
	}
	for i := range a.shards {
		a.shards[i].uses = map[placement.ID]*use{}
	}
	a.leases = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		placed(o)
		// RBAC allows this name and no other.
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, placement.ActivityLease).String()
	}), informers.WithTransform(stripLease)).Coordination().V1().Leases().Informer()
	if _, err := a.leases.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: a.appeared}); err != nil {
		return nil, fmt.Errorf("watching Leases: %w", err)
	}
	if err := m.followActivity(a); err != nil {
		return nil, err
	}
	return a, nil
}

// stripLease keeps of a Lease whose it is and its time.
func stripLease(obj any) (any, error) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return obj, nil
	}
	kept := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: lease.Spec.RenewTime}}
	kept.Name, kept.Namespace, kept.ResourceVersion, kept.Labels = lease.Name, lease.Namespace, lease.ResourceVersion, lease.Labels
	return kept, nil
}

func (a *activity) shard(id placement.ID) *activityShard {
	return &a.shards[maphash.String(a.seed, string(id.UID))%activityShards]
}

// begin notes that an instance is being used by a request, until the request ends, and tells
// whether that is about to be written. Every request to an instance comes here.
func (a *activity) begin(x *exchange, id placement.ID) (writes bool) {
	now := time.Now()
	shard := a.shard(id)
	shard.mu.RLock()
	u := shard.uses[id]
	if u != nil {
		u.begin(now) // with the lock held: what somebody uses is not forgotten
	}
	shard.mu.RUnlock()
	if u == nil {
		u, writes = a.remember(shard, id, now)
	}
	x.use = u
	return writes
}

// remember begins to remember an instance that was not used of late.
func (a *activity) remember(shard *activityShard, id placement.ID, now time.Time) (u *use, writes bool) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if u := shard.uses[id]; u != nil {
		u.begin(now)
		return u, false
	}
	u = &use{}
	u.begin(now)
	shard.uses[id] = u
	known, interval := a.known(id), a.limits().ActivityInterval
	if now.Sub(known) >= interval {
		a.due.Add(id)
		return u, true
	}
	u.written.Store(known.UnixNano()) // by another replica perhaps
	a.again(u, id, min(interval-now.Sub(known), interval))
	return u, false
}

// again has an instance looked at after a while. The shard's lock is held.
func (a *activity) again(u *use, id placement.ID, wait time.Duration) {
	if u.timer == nil {
		u.timer = time.AfterFunc(wait, func() { a.look(id) })
	} else {
		u.timer.Reset(wait)
	}
}

// look has the Lease written if there is something new to write, and forgets the instance if not.
func (a *activity) look(id placement.ID) {
	shard := a.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	u := shard.uses[id]
	switch {
	case u == nil:
	case u.open.Load() == 0 && u.last.Load() <= u.written.Load():
		delete(shard.uses, id)
	default:
		a.due.Add(id)
	}
}

// wrote notes what the Lease of an instance says now.
func (a *activity) wrote(u *use, id placement.ID, at time.Time) {
	shard := a.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	u.written.Store(at.UnixNano())
	a.again(u, id, a.limits().ActivityInterval)
}

func (a *activity) find(id placement.ID) *use {
	shard := a.shard(id)
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	return shard.uses[id]
}

// known is what the Lease says as far as we know; zero if there is none.
func (a *activity) known(id placement.ID) time.Time {
	lease := lookup[coordinationv1.Lease](a.leases, id.Namespace()+"/"+placement.ActivityLease)
	if lease == nil || lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

// appeared is told of a Lease: the instance may have been used before it was there.
func (a *activity) appeared(obj any) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Name != placement.ActivityLease {
		return
	}
	id := placement.ID{Cluster: lease.Labels[placement.LabelCluster], UID: types.UID(lease.Labels[placement.LabelInstanceUID])}
	if u := a.find(id); u != nil {
		var says int64
		if lease.Spec.RenewTime != nil {
			says = lease.Spec.RenewTime.UnixNano()
		}
		u.written.Store(says)
		a.due.Add(id)
	}
}

// count is how many instances are remembered.
func (a *activity) count() int {
	n := 0
	for i := range a.shards {
		a.shards[i].mu.RLock()
		n += len(a.shards[i].uses)
		a.shards[i].mu.RUnlock()
	}
	return n
}

// run writes Leases until ctx ends, or flush; it returns when ctx has ended and no goroutine of it
// is left.
func (a *activity) run(ctx context.Context) {
	var writers sync.WaitGroup
	for range activityWriters {
		writers.Go(func() {
			for a.next(ctx) {
			}
		})
	}
	go func() {
		writers.Wait()
		close(a.ended)
	}()
	a.leases.RunWithContext(ctx)
	a.due.ShutDown()
	<-a.ended
}
