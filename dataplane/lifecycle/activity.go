// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

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

	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// activityWriters is how many Leases are written at once. Requests wait for it.
	activityWriters = 32
	// activityRetry and activityRetryMost bound how long a write that failed waits.
	activityRetry     = 50 * time.Millisecond
	activityRetryMost = 5 * time.Second
	// activityShards keeps requests of different instances from waiting for one lock.
	activityShards = 64
)

// Activity records when instances are used in the Lease of each placement, before a request reaches
// the instance: what is not on record is not let through (recorded). So the controllers know of all
// use, whatever happens to this replica, and nothing that is in use is put to sleep or deleted. A
// record covers the instance for the interval and inuse.Grace; it is renewed after the interval while
// the instance is in use, so that hardly any request waits. What is remembered here are the instances
// that were used within the last interval, or are being used now; each of them is in the informers'
// caches too, which take much more.
type Activity struct {
	limits func() *limit.Limits
	client kubernetes.Interface
	// Clock is the one that records go by; nil for this machine's.
	Clock  *inuse.Clock
	leases cache.SharedIndexInformer
	// due are the instances whose Lease is to be written. It holds each once, and gives none to
	// two writers.
	due     workqueue.TypedRateLimitingInterface[placement.ID]
	metrics *record.Metrics
	log     *slog.Logger
	seed    maphash.Seed
	shards  [activityShards]activityShard
	// ended is closed when run has written all that it will.
	ended chan struct{}
}

type activityShard struct {
	mu   sync.RWMutex
	uses map[placement.ID]*Use
}

// Use is when one instance was used. Times are nanoseconds since base by the monotonic clock: a wall
// clock that is set back would make what happens now seem to be written already.
type Use struct {
	base time.Time
	// open counts the requests that are under way.
	open atomic.Int64
	last atomic.Int64
	// written is what the Lease says at least.
	written atomic.Int64
	// covered is until when the Lease lets the instance be used.
	covered atomic.Pointer[inuse.Coverage]
	// wanted is set when the Lease is to be written although it covers the instance.
	wanted atomic.Bool
	// timer has the use looked at again, and tried, if set, is closed when a write has ended; the
	// shard's lock guards both.
	timer *time.Timer
	tried chan struct{}
}

func (u *Use) since(t time.Time) int64 { return int64(t.Sub(u.base)) }

func (u *Use) begin(now time.Time) {
	u.open.Add(1)
	u.last.Store(u.since(now))
}

// End is told that a request has ended; it may be nil, for a request that was no use.
func (u *Use) End(now time.Time) {
	if u == nil {
		return
	}
	u.last.Store(u.since(now))
	u.open.Add(-1)
}

// Left is for how much longer the instance may be used by what is on record.
func (u *Use) Left(now time.Time) time.Duration { return u.covered.Load().Left(now) }

// isWritten reports whether the Lease says all that there is to say now, and for long enough.
func (u *Use) isWritten(now time.Time, interval time.Duration) bool {
	written := u.written.Load()
	return u.last.Load() <= written && (u.open.Load() == 0 || u.since(now)-written < int64(interval) && u.Left(now) > inuse.Grace)
}

// ago is how long ago the instance was last used; zero if it is being used.
func (u *Use) ago(now time.Time) time.Duration {
	if u.open.Load() > 0 {
		return 0
	}
	return max(time.Duration(u.since(now)-u.last.Load()), 0)
}

// NewActivity returns a record of use that is empty; it begins to write with Run.
func NewActivity(limits func() *limit.Limits, client kubernetes.Interface, m *record.Metrics, log *slog.Logger) (*Activity, error) {
	a := &Activity{
		limits: limits, client: client, metrics: m, log: log, seed: maphash.MakeSeed(), ended: make(chan struct{}),
		due: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[placement.ID](activityRetry, activityRetryMost)),
	}
	for i := range a.shards {
		a.shards[i].uses = map[placement.ID]*Use{}
	}
	a.leases = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		locate.Placed(o)
		// RBAC allows this name and no other.
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, placement.ActivityLease).String()
	}), informers.WithTransform(stripLease)).Coordination().V1().Leases().Informer()
	if _, err := a.leases.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: a.appeared}); err != nil {
		return nil, fmt.Errorf("watching Leases: %w", err)
	}
	if err := followActivity(m, a); err != nil {
		return nil, err
	}
	return a, nil
}

// stripLease keeps of a Lease whose it is and what it records.
func stripLease(obj any) (any, error) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return obj, nil
	}
	kept := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: lease.Spec.RenewTime, LeaseDurationSeconds: lease.Spec.LeaseDurationSeconds}}
	kept.Name, kept.Namespace, kept.ResourceVersion, kept.Labels = lease.Name, lease.Namespace, lease.ResourceVersion, lease.Labels
	if mark, ok := lease.Annotations[placement.AnnotationEnding]; ok {
		kept.Annotations = map[string]string{placement.AnnotationEnding: mark}
	}
	return kept, nil
}

func (a *Activity) shard(id placement.ID) *activityShard {
	return &a.shards[maphash.String(a.seed, string(id.UID))%activityShards]
}

// Begin notes that an instance is being used by a request, and returns the use, which the request must
// end. Every request to an instance comes here, and then to recorded.
func (a *Activity) Begin(id placement.ID) *Use {
	now := time.Now()
	shard := a.shard(id)
	shard.mu.RLock()
	u := shard.uses[id]
	if u != nil {
		u.begin(now) // with the lock held: what somebody uses is not forgotten
	}
	shard.mu.RUnlock()
	if u == nil {
		u = a.remember(shard, id, now)
	}
	return u
}

// remember begins to remember an instance that was not used of late.
func (a *Activity) remember(shard *activityShard, id placement.ID, now time.Time) *Use {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if u := shard.uses[id]; u != nil {
		u.begin(now)
		return u
	}
	u := &Use{base: now}
	shard.uses[id] = u
	known, interval := inuse.RecordOf(a.known(id)), a.limits().ActivityInterval
	at := a.Clock.Later()
	if !known.Current(at, interval) {
		u.written.Store(-1)
		u.begin(now)
		a.due.Add(id)
		return u
	}
	age := max(at.Sub(known.Used), 0) // another replica has written it, perhaps
	covered := known.Covering(now, at, interval)
	u.written.Store(-int64(age) - 1)
	u.covered.Store(covered)
	u.begin(now)
	// What the controllers have written covers less than an interval: a stream that began in it would
	// be cut before the next record was due.
	a.again(u, id, covered.Renewal(interval-age))
	return u
}

// again has an instance looked at after a while. The shard's lock is held.
func (a *Activity) again(u *Use, id placement.ID, wait time.Duration) {
	if u.timer == nil {
		u.timer = time.AfterFunc(wait, func() { a.look(id) })
	} else {
		u.timer.Reset(wait)
	}
}

// look has the Lease written if there is something new to write, and forgets the instance if not.
func (a *Activity) look(id placement.ID) {
	shard := a.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	u := shard.uses[id]
	switch {
	case u == nil:
	case u.open.Load() == 0 && u.last.Load() <= u.written.Load():
		delete(shard.uses, id)
	default:
		a.want(u, id)
	}
}

// want has the Lease written in any case.
func (a *Activity) want(u *Use, id placement.ID) {
	u.wanted.Store(true)
	a.due.Add(id)
}

// Wake has a use recorded once more that is on record, because the instance sleeps all the same. One
// that is not is about to be: the request that asks waits for it.
func (a *Activity) Wake(id placement.ID) {
	if u := a.find(id); u != nil && u.Left(time.Now()) > 0 {
		a.want(u, id)
	}
}

// wrote notes what the Lease of an instance says now: that it was used until a moment ago, and for
// how long it may be. Requests that wait for it go on.
func (a *Activity) wrote(u *Use, id placement.ID, until int64, covered *inuse.Coverage) {
	shard := a.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	u.written.Store(until)
	u.covered.Store(covered)
	if u.tried != nil {
		close(u.tried)
		u.tried = nil
	}
	a.again(u, id, covered.Renewal(a.limits().ActivityInterval))
}

func (a *Activity) find(id placement.ID) *Use {
	shard := a.shard(id)
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	return shard.uses[id]
}

// known is the Lease as far as we know; nil if there is none.
func (a *Activity) known(id placement.ID) *coordinationv1.Lease {
	return locate.Lookup[coordinationv1.Lease](a.leases, id.Namespace()+"/"+placement.ActivityLease)
}

// appeared is told of a Lease: the instance may have been used before it was there.
func (a *Activity) appeared(obj any) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Name != placement.ActivityLease {
		return
	}
	id := placement.ID{Origin: lease.Labels[placement.LabelCluster], UID: types.UID(lease.Labels[placement.LabelInstanceUID])}
	if u := a.find(id); u != nil {
		u.written.Store(-1) // whatever it says: to write it once more costs little
		a.want(u, id)
	}
}

// count is how many instances are remembered.
func (a *Activity) count() int {
	n := 0
	for i := range a.shards {
		a.shards[i].mu.RLock()
		n += len(a.shards[i].uses)
		a.shards[i].mu.RUnlock()
	}
	return n
}

// Run writes Leases until ctx ends, or flush; it returns when ctx has ended and no goroutine of it
// is left.
func (a *Activity) Run(ctx context.Context) {
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
