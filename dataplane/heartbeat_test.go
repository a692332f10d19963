// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestTheHeartbeatTellsSinceWhenTheDataPlaneServes(t *testing.T) {
	const absent = time.Duration(-1)
	for name, c := range map[string]struct {
		acquired, renewed time.Duration // of the Lease, before now
		want              leaseAges     // after it
	}{
		"the first replica begins the time":         {absent, absent, leaseAges{0, 0}},
		"a replica goes on with it":                 {time.Hour, 15 * time.Second, leaseAges{time.Hour, 0}},
		"so it does after a short gap":              {time.Hour, 45 * time.Second, leaseAges{time.Hour, 0}},
		"after a long one it begins anew":           {time.Hour, 46 * time.Second, leaseAges{0, 0}},
		"a clock that is a little ahead is let be":  {time.Hour, -2 * time.Second, leaseAges{time.Hour, -2 * time.Second}},
		"a time that no clock means does not count": {time.Hour, -24 * time.Hour, leaseAges{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				client := fake.NewClientset()
				if c.acquired != absent {
					lease := &coordinationv1.Lease{
						ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: placement.DataPlaneLease},
						Spec: coordinationv1.LeaseSpec{
							AcquireTime: &metav1.MicroTime{Time: now.Add(-c.acquired)}, RenewTime: &metav1.MicroTime{Time: now.Add(-c.renewed)},
						},
					}
					client = fake.NewClientset(lease)
				}
				b := &heartbeat{client: client, namespace: placement.SystemNamespace}
				if err := b.beat(t.Context(), now); err != nil {
					t.Fatal(err)
				}
				if got := agesOf(t, client); got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		})
	}
}

type leaseAges struct{ acquired, renewed time.Duration }

func agesOf(t *testing.T, client *fake.Clientset) leaseAges {
	t.Helper()
	lease, err := client.CoordinationV1().Leases(placement.SystemNamespace).Get(t.Context(), placement.DataPlaneLease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return leaseAges{time.Since(lease.Spec.AcquireTime.Time), time.Since(lease.Spec.RenewTime.Time)}
}

func TestOnlyAReplicaThatServesBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var serves atomic.Bool
		b := &heartbeat{client: client, namespace: placement.SystemNamespace, serves: serves.Load, metrics: record.NewMetrics("test"), log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(client.Actions()); got != 0 {
			t.Errorf("%d calls by a replica that does not serve", got)
		}
		serves.Store(true)
		time.Sleep(heartbeatFirst + 10*heartbeatInterval + time.Second)
		synctest.Wait()
		if got := agesOf(t, client); got.renewed > heartbeatInterval || got.acquired < 10*heartbeatInterval {
			t.Errorf("after ten beats the Lease has the ages %v", got)
		}
		serves.Store(false) // it drains
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := agesOf(t, client); got.renewed < 45*time.Second {
			t.Errorf("a replica that drains has beaten %s ago", got.renewed)
		}
		cancel()
		<-done
	})
}
