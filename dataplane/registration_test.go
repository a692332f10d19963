// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// registered is a replica's Lease with a fake cluster and a fake clock, in a synctest bubble.
type registered struct {
	*registration
	t      *testing.T
	client *fake.Clientset
	filled atomic.Bool
	// fails has the cluster refuse everything, deaf has its watches bring nothing.
	fails, deaf atomic.Bool
	stop        func()
}

func newRegistered(t *testing.T, client *fake.Clientset, address string) *registered {
	t.Helper()
	r := &registered{t: t, client: client}
	r.filled.Store(true)
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if r.fails.Load() {
			return true, nil, errors.New("the API server is away")
		}
		return false, nil, nil
	})
	client.PrependWatchReactor("leases", func(action clienttesting.Action) (bool, watch.Interface, error) {
		from, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(from, func(e watch.Event) (watch.Event, bool) { return e, !r.deaf.Load() }), nil
	})
	var err error
	if r.registration, err = newRegistration(client, placement.SystemNamespace, nil, record.NewMetrics("test"), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	r.registration.filled = r.filled.Load
	r.listensAt(address)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	r.stop = func() { cancel(); <-done }
	synctest.Wait()
	return r
}

// leases are the replicas' Leases by their holders.
func leasesOf(t *testing.T, client *fake.Clientset) map[string]coordinationv1.Lease {
	t.Helper()
	list, err := client.CoordinationV1().Leases(placement.SystemNamespace).List(context.Background(), metav1.ListOptions{LabelSelector: placement.LabelReplica})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]coordinationv1.Lease{}
	for _, lease := range list.Items {
		all[*lease.Spec.HolderIdentity] = lease
	}
	return all
}

func (r *registered) open() bool { return r.fence.Open(time.Now()) }

func (r *registered) pass(d time.Duration) {
	time.Sleep(d) // the fake clock's
	synctest.Wait()
}

func TestAReplicaServesOnceItsLeaseHasComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		r := newRegistered(t, client, "a:1")
		defer r.stop()
		if !r.open() {
			t.Fatal("it does not serve")
		}
		lease, ok := leasesOf(t, client)[r.holder()]
		if !ok || lease.Labels[placement.LabelReplica] != r.id || *lease.Spec.LeaseDurationSeconds != 30 {
			t.Errorf("its Lease is %+v", lease)
		}
		for range 100 {
			r.pass(inuse.BeatInterval)
			if age, _ := r.fence.Age(time.Now()); age > inuse.BeatInterval+renewalRetry {
				t.Fatalf("the last renewal is %v old", age)
			}
		}
	})
}

func TestAReplicaWhoseCachesAreEmptyHasNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			t.Error("it makes one")
			return false, nil, nil
		})
		r, err := newRegistration(client, placement.SystemNamespace, nil, record.NewMetrics("test"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		r.filled = func() bool { return false }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r.run(ctx)
		if r.fence.Open(time.Now()) {
			t.Error("it serves")
		}
	})
}

// A replica that loses the runtime cluster stops serving by its own clock, whichever way it is lost, and
// serves again when it is back.
func TestAReplicaThatLosesTheRuntimeClusterStopsServing(t *testing.T) {
	for name, lose := range map[string]func(*registered) *atomic.Bool{
		"it cannot write":             func(r *registered) *atomic.Bool { return &r.fails },
		"it writes and hears nothing": func(r *registered) *atomic.Bool { return &r.deaf },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRegistered(t, fake.NewClientset(), "a:1")
				defer r.stop()
				lose(r).Store(true)
				r.pass(inuse.FenceAfter - inuse.BeatInterval - 1)
				if !r.open() {
					t.Error("it has stopped too early")
				}
				r.pass(inuse.BeatInterval + 1)
				if r.open() {
					t.Error("it still serves")
				}
				r.pass(time.Hour)
				if r.open() {
					t.Error("it serves after an hour")
				}
				lose(r).Store(false)
				r.pass(inuse.BeatInterval + renewalRetry)
				if !r.open() {
					t.Error("it does not serve again")
				}
			})
		})
	}
}

// A process that was stopped finds out at its first question, before any timer has run.
func TestAProcessThatWasStoppedDoesNotServeWhenItContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistered(t, fake.NewClientset(), "a:1")
		r.stop() // nothing of it runs
		if !r.open() {
			t.Fatal("it does not serve")
		}
		time.Sleep(inuse.FenceAfter)
		if r.open() {
			t.Error("it serves")
		}
	})
}

func TestAProcessInThePlaceOfOneThatWasKilledTakesItsLeaseOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		killed := newRegistered(t, client, "a:1")
		killed.stop() // without release
		next := newRegistered(t, client, "a:1")
		defer next.stop()
		leases := leasesOf(t, client)
		lease, ok := leases[next.holder()]
		if !ok || len(leases) != 1 || lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions != 1 {
			t.Errorf("the Leases are %v", leases)
		}
		other := newRegistered(t, client, "a:2")
		defer other.stop()
		if leases := leasesOf(t, client); len(leases) != 2 {
			t.Errorf("beside another there are %v", leases)
		}
	})
}

// Two machines of the same name listen on the same port: neither may stand for the other.
func TestAReplicaThatIsTakenForDeadMakesAnotherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		first, second := newRegistered(t, client, "a:1"), newRegistered(t, client, "a:1")
		defer first.stop()
		defer second.stop()
		first.pass(time.Minute)
		leases := leasesOf(t, client)
		if len(leases) != 2 || leases[first.holder()].Name == "" || leases[second.holder()].Name == "" {
			t.Errorf("the Leases are %v", leases)
		}
		if !first.open() || !second.open() {
			t.Error("one does not serve")
		}
	})
}

func TestALeaseThatSomebodyDeletesIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		r := newRegistered(t, client, "a:1")
		defer r.stop()
		if err := client.CoordinationV1().Leases(placement.SystemNamespace).Delete(t.Context(), r.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.pass(inuse.BeatInterval)
		if leases := leasesOf(t, client); len(leases) != 1 || !r.open() {
			t.Errorf("the Leases are %v", leases)
		}
	})
}

func TestAReplicaThatEndsLeavesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		r := newRegistered(t, client, "a:1")
		r.release(t.Context())
		r.pass(time.Minute)
		if leases := leasesOf(t, client); len(leases) != 0 {
			t.Errorf("it leaves %v", leases)
		}
		r.stop()
	})
}

// A kind whose instances cannot be listed is no reason to close the fence: all replicas see the same
// kinds, and would cut the streams of all tenants.
func TestANewKindDoesNotCloseTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistered(t, fake.NewClientset(), "a:1")
		defer r.stop()
		r.pass(9 * time.Second)
		r.filled.Store(false)
		r.pass(time.Minute)
		if !r.open() {
			t.Error("a replica that serves does not serve any more")
		}
	})
}
