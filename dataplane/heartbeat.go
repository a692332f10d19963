// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/dataplane/lifecycle"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// heartbeatInterval is how often each replica that serves says so.
	heartbeatInterval = inuse.BeatInterval
	// heartbeatFirst is how often a replica that does not serve yet looks whether it does.
	heartbeatFirst = time.Second
)

// heartbeat says in a Lease, which all replicas share, that the data plane serves. The controllers
// put nothing to sleep for being unused while nobody could use it (ADR 9). What each single replica
// has to say is in a Lease of its own; see registration.
type heartbeat struct {
	client kubernetes.Interface
	// namespace is where the Lease is.
	namespace string
	serves    func() bool
	clock     *inuse.Clock
	metrics   *record.Metrics
	log       *slog.Logger
}

// run beats until ctx ends.
func (b *heartbeat) run(ctx context.Context) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		next := heartbeatFirst
		if b.serves() {
			next = heartbeatInterval
			result := record.WriteDone
			if err := b.beat(ctx, b.clock.Later()); err != nil {
				result = record.WriteFailed
				b.log.Warn("the data plane's Lease could not be written: while it is old, nothing is put to sleep", "error", err)
			}
			b.metrics.Heartbeats.Get(result).Inc()
		}
		wait.Reset(next)
	}
}

// beat writes the Lease, and makes it if there is none.
func (b *heartbeat) beat(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, lifecycle.LeaseTimeout)
	defer cancel()
	leases := b.client.CoordinationV1().Leases(b.namespace)
	lease, err := leases.Get(ctx, placement.DataPlaneLease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: placement.DataPlaneLease, Namespace: b.namespace,
				Labels: map[string]string{placement.LabelManagedBy: placement.ManagedBy},
			},
			Spec: coordinationv1.LeaseSpec{AcquireTime: &metav1.MicroTime{Time: now}, RenewTime: &metav1.MicroTime{Time: now}},
		}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) { // then another replica was first, a moment ago
			return nil
		}
		return fmt.Errorf("making Lease %s: %w", placement.DataPlaneLease, err)
	}
	if err != nil {
		return fmt.Errorf("reading Lease %s: %w", placement.DataPlaneLease, err)
	}
	if times, ok := nextBeat(&lease.Spec, now); ok {
		lease.ResourceVersion = "" // whoever writes last says the same
		_, err = lifecycle.PatchLease(ctx, b.client, lease, times)
	}
	return err
}

// nextBeat is what to write into the Lease; false for nothing, because another replica's clock is
// ahead. A time so far ahead that no clock can be meant does not count: it would stand for ever.
func nextBeat(lease *coordinationv1.LeaseSpec, now time.Time) (lifecycle.LeaseTimes, bool) {
	beat := lifecycle.LeaseTimes{RenewTime: &metav1.MicroTime{Time: now}}
	if lease.RenewTime == nil || lease.AcquireTime == nil {
		beat.AcquireTime = beat.RenewTime
		return beat, true
	}
	switch age := now.Sub(lease.RenewTime.Time); {
	case age.Abs() > inuse.SilentAfter:
		beat.AcquireTime = beat.RenewTime
	case age <= 0:
		return lifecycle.LeaseTimes{}, false
	}
	return beat, true
}
