// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// leaseTimeout bounds one write of a Lease.
	leaseTimeout = 10 * time.Second
	// flushTimeout bounds the last writes of a server that ends.
	flushTimeout = 5 * time.Second
)

// Results of a write, for the metric.
const (
	writeDone    = "written"
	writeCurrent = "current" // the Lease said so already
	writeMissing = "missing" // there is no Lease
	writeFailed  = "failed"
)

// next writes one Lease; it returns false when there will be no more.
func (a *activity) next(ctx context.Context) bool {
	id, ended := a.due.Get()
	if ended {
		return false
	}
	defer a.due.Done(id)
	u := a.find(id)
	now := time.Now()
	if u == nil || u.isWritten(now, a.limits().ActivityInterval) {
		a.due.Forget(id)
		return true
	}
	at := u.until(now)
	written, result, err := a.write(ctx, id, at)
	a.metrics.activityWrites.get(result).Inc()
	if err != nil {
		if a.due.NumRequeues(id) == 0 {
			a.log.Warn("the use of an instance could not be written: it is tried again", "namespace", id.Namespace(), "error", err)
		}
		a.due.AddRateLimited(id)
		return true
	}
	a.due.Forget(id)
	a.wrote(u, id, written)
	return true
}

// write moves the time in an instance's Lease forward, never back: another replica may have
// written a later one. A race of two costs the moment between them. A Lease that is not there is
// no error: the controllers make it, and then appeared is told.
func (a *activity) write(ctx context.Context, id placement.ID, at time.Time) (written time.Time, result string, err error) {
	if known := a.known(id); !known.Before(at) {
		return known, writeCurrent, nil
	}
	err = patchLease(ctx, a.client, id.Namespace(), placement.ActivityLease, leaseTimes{RenewTime: &metav1.MicroTime{Time: at}})
	switch {
	case apierrors.IsNotFound(err):
		return at, writeMissing, nil
	case err != nil:
		return time.Time{}, writeFailed, err
	}
	return at, writeDone, nil
}

// leaseTimes is what the data plane writes of a Lease.
type leaseTimes struct {
	AcquireTime *metav1.MicroTime `json:"acquireTime,omitempty"`
	RenewTime   *metav1.MicroTime `json:"renewTime,omitempty"`
}

func patchLease(ctx context.Context, client kubernetes.Interface, namespace, name string, times leaseTimes) error {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]leaseTimes{"spec": times})
	if err != nil {
		return fmt.Errorf("encoding the times of a Lease: %w", err)
	}
	_, err = client.CoordinationV1().Leases(namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("writing Lease %s: %w", name, err)
	}
	return nil
}

// flush writes what is not written yet, for a server that ends. Nobody may use an instance any
// more when it is called.
func (a *activity) flush() {
	for i := range a.shards {
		shard := &a.shards[i]
		shard.mu.RLock()
		for id, u := range shard.uses {
			if u.last.Load() > u.written.Load() {
				a.due.Add(id)
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
func (m *metrics) followActivity(a *activity) error {
	if err := m.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "active_instances",
		Help: "Instances that are in use, or were within the last minute.",
	}, func() float64 { return float64(a.count()) })); err != nil {
		return fmt.Errorf("registering the metric of active instances: %w", err)
	}
	return nil
}
