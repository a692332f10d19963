// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/series"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// LeaseTimeout bounds one write of a Lease.
	LeaseTimeout = 10 * time.Second
	// flushTimeout bounds the last writes of a server that ends.
	flushTimeout = 5 * time.Second
	// RecordWait is how long a request waits until its use is on record. A restart of the runtime
	// cluster's API server takes about as long.
	RecordWait = 10 * time.Second
	// recordTries is how often one write is tried when others write the same Lease.
	recordTries = 3
)

// Results of a write, for the metric.
const (
	writeCurrent = "current" // the Lease said so already
	writeMissing = "missing" // there is no Lease
)

var (
	errEnding    = errors.New("the controllers are about to delete the instance for being unused")
	errNoLease   = errors.New("the controllers have not made the instance's Lease yet")
	errContended = errors.New("others write the Lease at the same time")
)

// Recorded returns when the use of an instance that a request has begun is on record, or refuses the
// request: what is used without the controllers' knowledge could be put to sleep or deleted under
// its user.
func (a *Activity) Recorded(ctx context.Context, u *Use, id placement.ID) *refusal.Error {
	if u.Left(time.Now()) > 0 {
		return nil
	}
	deadline := time.NewTimer(RecordWait)
	defer deadline.Stop()
	for {
		done := a.writing(u, id)
		if done == nil {
			return nil
		}
		select {
		case <-done:
		case <-deadline.C:
			return refusal.Unrecorded()
		case <-ctx.Done():
			return access.ClientGone(context.Cause(ctx))
		}
	}
}

// writing has an instance's Lease written, and returns what is closed when that is done; nil if the
// instance is covered.
func (a *Activity) writing(u *Use, id placement.ID) <-chan struct{} {
	shard := a.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if u.Left(time.Now()) > 0 {
		return nil
	}
	if u.tried == nil {
		u.tried = make(chan struct{})
	}
	a.due.Add(id)
	return u.tried
}

// next writes one Lease; it returns false when there will be no more.
func (a *Activity) next(ctx context.Context) bool {
	id, ended := a.due.Get()
	if ended {
		return false
	}
	defer a.due.Done(id)
	u := a.find(id)
	now := time.Now()
	if u == nil || u.isWritten(now, a.limits().ActivityInterval) || !u.wanted.Swap(false) && u.Left(now) > 0 {
		a.due.Forget(id)
		return true
	}
	ago := u.ago(now)
	covered, result, err := a.write(ctx, id, ago)
	a.metrics.ActivityWrites.Get(result).Inc()
	if err != nil {
		if a.due.NumRequeues(id) == 0 {
			a.log.Warn("the use of an instance could not be recorded: it is tried again, and requests wait for it", "namespace", id.Namespace(), "error", err)
		}
		u.wanted.Store(true)
		a.due.AddRateLimited(id)
		return true
	}
	a.due.Forget(id)
	a.wrote(u, id, u.since(now)-int64(ago), covered)
	return true
}

// write records that an instance was used until some time ago, and returns what that covers. Each
// write names the version of the Lease that it was decided by: a request that was delayed on its way
// must not take back what another replica, or this one, has recorded since.
func (a *Activity) write(ctx context.Context, id placement.ID, ago time.Duration) (covered *inuse.Coverage, result string, err error) {
	ctx, cancel := context.WithTimeout(ctx, LeaseTimeout)
	defer cancel()
	interval, lease := a.limits().ActivityInterval, a.known(id)
	for range recordTries {
		began, now := time.Now(), a.Clock.Later()
		if lease == nil {
			lease, err = a.client.CoordinationV1().Leases(id.Namespace()).Get(ctx, placement.ActivityLease, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				covered, err = withoutLease(began, interval)
				return covered, writeMissing, err
			case err != nil:
				return nil, record.WriteFailed, fmt.Errorf("reading when the instance was used: %w", err)
			}
		}
		used, covered := inuse.RecordOf(lease).Extend(began, now, ago, interval)
		if covered != nil {
			return covered, writeCurrent, nil
		}
		written, err := a.patch(ctx, lease, used, interval)
		switch {
		case apierrors.IsConflict(err):
			lease = nil
			continue
		case apierrors.IsNotFound(err):
			covered, err = withoutLease(began, interval)
			return covered, writeMissing, err
		case err != nil:
			return nil, record.WriteFailed, fmt.Errorf("recording the use of an instance: %w", err)
		case inuse.RecordOf(written).Ending:
			return nil, record.WriteFailed, errEnding
		}
		return inuse.Covered(began, now, used, interval), record.WriteDone, nil
	}
	return nil, record.WriteFailed, errContended
}

// withoutLease is what covers an instance without a Lease: the controllers take nothing before they
// have made it, and then it says that the instance is used at that moment.
func withoutLease(began time.Time, interval time.Duration) (*inuse.Coverage, error) {
	covered := inuse.Record{}.Covering(began, time.Time{}, interval)
	if covered.For <= 0 {
		return nil, errNoLease
	}
	return covered, nil
}

// patch writes a record into a Lease, if that is still what was read.
func (a *Activity) patch(ctx context.Context, lease *coordinationv1.Lease, used time.Time, interval time.Duration) (*coordinationv1.Lease, error) {
	seconds := int32(inuse.CoverFor(interval) / time.Second)
	return PatchLease(ctx, a.client, lease, LeaseTimes{RenewTime: &metav1.MicroTime{Time: used}, LeaseDurationSeconds: &seconds})
}

// Flush writes what is not written yet, for a server that ends. Nobody may use an instance any
// more when it is called.
func (a *Activity) Flush() {
	for i := range a.shards {
		shard := &a.shards[i]
		shard.mu.RLock()
		for id, u := range shard.uses {
			if u.last.Load() > u.written.Load() {
				a.want(u, id)
			}
		}
		shard.mu.RUnlock()
	}
	a.due.ShutDown() // what is in it is still written
	select {
	case <-a.ended:
	case <-time.After(flushTimeout):
		a.log.Warn("not all use of instances was written in time", "timeout", flushTimeout)
	}
}

// followActivity makes the gauge of the instances that are in use.
func followActivity(m *record.Metrics, a *Activity) error {
	if err := m.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: series.Namespace, Subsystem: series.Subsystem, Name: "active_instances",
		Help: "Instances that are in use, or were within the last minute.",
	}, func() float64 { return float64(a.count()) })); err != nil {
		return fmt.Errorf("registering the metric of active instances: %w", err)
	}
	return nil
}
