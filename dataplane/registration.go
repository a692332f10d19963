// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/dataplane/lifecycle"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/series"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// renewalFirst is how often a replica that starts looks whether it could serve.
	renewalFirst = 50 * time.Millisecond
	// renewalRetry is how soon a renewal that failed is tried again, and how often it is looked at
	// whether one is due.
	renewalRetry = time.Second
	// releaseTimeout bounds how long a server that ends waits until its Lease is gone.
	releaseTimeout = 5 * time.Second
)

// registration keeps the Lease that stands for this replica and for no other. A renewal counts when
// the replica's own watch has brought it back: then both ways work, and the fence stays open. A
// replica that can write, but does not hear what happens on the runtime cluster, would lead callers
// to pods that are gone.
type registration struct {
	client kubernetes.Interface
	// namespace is where the Lease is.
	namespace string
	fence     *inuse.Fence
	clock     *inuse.Clock
	// filled reports whether the replica could serve but for the fence. It is asked before the first
	// renewal.
	filled  func() bool
	metrics *record.Metrics
	log     *slog.Logger
	// id is another after each start of the process, host the machine's name.
	id, host string
	own      cache.SharedIndexInformer
	// failing is set while the Lease cannot be renewed; only run uses it.
	failing bool

	// mu is held while the Lease is written, and guards what follows.
	mu sync.Mutex
	// name is that of the Lease.
	name string
	// registered is set once the Lease was ours; ended when it must not be any more.
	registered, ended bool

	// sent are the renewals that have not come back, by their time in microseconds; sentMu guards it.
	sentMu sync.Mutex
	sent   map[int64]time.Time
}

func newRegistration(client kubernetes.Interface, namespace string, clock *inuse.Clock, m *record.Metrics, log *slog.Logger) (*registration, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the machine's name: %w", err)
	}
	r := &registration{
		client: client, namespace: namespace, fence: &inuse.Fence{}, clock: clock, metrics: m, log: log,
		id: string(uuid.NewUUID()), host: host, sent: map[int64]time.Time{},
	}
	r.own = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = placement.LabelReplica + "=" + r.id }),
	).Coordination().V1().Leases().Informer()
	if _, err := r.own.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: r.cameBack, UpdateFunc: func(_, obj any) { r.cameBack(obj) },
	}); err != nil {
		return nil, fmt.Errorf("watching the replica's own Lease: %w", err)
	}
	return r, followRegistration(m, r)
}

// holder is the replica's name in its Lease, for people too.
func (r *registration) holder() string { return r.host + "_" + r.id }

// listensAt names the Lease for where the replica listens. A process that is started in the place of
// one that was killed there takes its Lease over at once, and nobody waits for the dead one.
func (r *registration) listensAt(address string) {
	sum := sha256.Sum256([]byte(r.host + "\x00" + address))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name = placement.ReplicaLeasePrefix + hex.EncodeToString(sum[:5])
}

// run renews the Lease until ctx ends.
func (r *registration) run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { r.own.RunWithContext(ctx) })
	wait := time.NewTimer(0)
	defer wait.Stop()
	var renewed time.Time
	for wasOpen := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		now := time.Now()
		open := r.fence.Open(now)
		if wasOpen && !open {
			r.log.Error("the replica has stopped serving: its Lease on the runtime cluster could not be renewed, or the renewal was not seen", "limit", inuse.FenceAfter)
		}
		wasOpen = open
		wait.Reset(renewalFirst)
		// Afterwards it is the fence alone that ends its service: a new kind whose instances cannot be
		// listed would close it in all replicas at once.
		if renewed.IsZero() && !r.filled() {
			continue
		}
		// Looked at more often than renewals are due: a clock that was set, or a process that was
		// stopped, must not keep the fence closed until the next one.
		wait.Reset(renewalRetry)
		if (renewed.IsZero() || inuse.Elapsed(renewed, now) >= inuse.BeatInterval) && r.renew(ctx) {
			renewed = now
		}
	}
}

// renew writes the Lease once, and reports whether it did.
func (r *registration) renew(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lifecycle.LeaseTimeout)
	defer cancel()
	err := r.beat(ctx)
	if err != nil {
		if !r.failing {
			r.log.Warn("the replica's Lease could not be renewed: without it the replica stops serving", "limit", inuse.FenceAfter, "error", err)
		}
		r.failing = true
		r.metrics.Renewals.Get(record.WriteFailed).Inc()
		return false
	}
	r.failing = false
	r.metrics.Renewals.Get(record.WriteDone).Inc()
	return true
}

// beat makes the Lease, takes it over from a process that listened here before, or renews it.
func (r *registration) beat(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	leases := r.client.CoordinationV1().Leases(r.namespace)
	lease, err := leases.Get(ctx, r.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if _, err = leases.Create(ctx, r.fill(&coordinationv1.Lease{}), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making Lease %s: %w", r.name, err)
		}
	case err != nil:
		return fmt.Errorf("reading Lease %s: %w", r.name, err)
	case r.registered && lease.Labels[placement.LabelReplica] != r.id:
		// Another process on a machine of the same name took us for dead. It has the Lease now.
		r.name += "-" + r.id[:8]
		return fmt.Errorf("another process has taken over Lease %s: the replica makes another", lease.Name)
	default:
		if _, err = leases.Update(ctx, r.fill(lease), metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("renewing Lease %s: %w", r.name, err)
		}
	}
	r.registered = true
	return nil
}

// fill puts the replica and the time into a Lease, and notes that it is sent.
func (r *registration) fill(lease *coordinationv1.Lease) *coordinationv1.Lease {
	began, now, holder, limit := time.Now(), metav1.NewMicroTime(r.clock.Later()), r.holder(), int32(inuse.FenceAfter/time.Second)
	if lease.Labels[placement.LabelReplica] != r.id {
		if lease.Spec.HolderIdentity != nil {
			transitions := int32(1)
			if lease.Spec.LeaseTransitions != nil {
				transitions += *lease.Spec.LeaseTransitions
			}
			lease.Spec.LeaseTransitions = &transitions
		}
		lease.Spec.AcquireTime = &now
	}
	lease.Namespace, lease.Name = r.namespace, r.name
	lease.Labels = map[string]string{placement.LabelManagedBy: placement.ManagedBy, placement.LabelReplica: r.id}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &holder, &now, &limit
	r.sentMu.Lock()
	defer r.sentMu.Unlock()
	for renewal, sent := range r.sent {
		if inuse.Elapsed(sent, began) > inuse.FenceAfter {
			delete(r.sent, renewal) // it would open nothing any more
		}
	}
	r.sent[now.UnixMicro()] = began
	return lease
}

// cameBack is told of the Lease by the watch.
func (r *registration) cameBack(obj any) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Spec.RenewTime == nil || lease.Labels[placement.LabelReplica] != r.id {
		return
	}
	r.sentMu.Lock()
	defer r.sentMu.Unlock()
	renewal := lease.Spec.RenewTime.UnixMicro()
	if began, ok := r.sent[renewal]; ok {
		delete(r.sent, renewal)
		r.fence.Renew(began)
	}
}

// release deletes the Lease: the replica serves nobody any more, and what it served is on record.
func (r *registration) release(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if !r.registered {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	err := r.client.CoordinationV1().Leases(r.namespace).Delete(ctx, r.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.log.Warn("the replica's Lease could not be deleted: nothing is deleted for being unused until the controllers give the replica up", "lease", r.name, "after", inuse.GivenUpAfter, "error", err)
	}
}

// followRegistration makes the gauges of the replica's own Lease.
func followRegistration(m *record.Metrics, r *registration) error {
	for name, gauge := range map[string]struct {
		help  string
		value func() float64
	}{
		"lease_age_seconds": {"How long ago the renewal of this replica's Lease was sent that came back last; it stops serving at 30.", func() float64 {
			age, _ := r.fence.Age(time.Now())
			return age.Seconds()
		}},
		"fenced": {"1 while the replica does not serve because it does not renew its Lease.", func() float64 {
			if _, registered := r.fence.Age(time.Now()); registered && !r.fence.Open(time.Now()) {
				return 1
			}
			return 0
		}},
		"clock_ahead_seconds": {"By how much this replica's clock is ahead of that of the runtime cluster's API server; less than two seconds may be noise.", func() float64 {
			ahead, _ := r.clock.Ahead(inuse.Runtime)
			return ahead.Seconds()
		}},
	} {
		if err := m.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: series.Namespace, Subsystem: series.Subsystem, Name: name, Help: gauge.help,
		}, gauge.value)); err != nil {
			return fmt.Errorf("registering the metrics of the replica's Lease: %w", err)
		}
	}
	return nil
}
