// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// usage is an activity with a fake cluster and a fake clock, in a synctest bubble.
type usage struct {
	*Activity
	t      *testing.T
	client *fake.Clientset
	begun  time.Time
	stop   func()
}

// newUsage begins with a Lease that was renewed some time ago; a negative time is for no Lease.
func newUsage(t *testing.T, renewed time.Duration) *usage {
	t.Helper()
	u := &usage{t: t, begun: time.Now(), client: fake.NewClientset()}
	if renewed >= 0 {
		u.addLease(time.Now().Add(-renewed))
	}
	limits := &limit.Limits{}
	limits.SetDefaults()
	var err error
	if u.Activity, err = NewActivity(func() *limit.Limits { return limits }, u.client, record.NewMetrics("test"), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); u.Run(ctx) }()
	u.stop = func() { cancel(); <-done }
	synctest.Wait()
	u.client.ClearActions()
	return u
}

// addLease adds a Lease as a replica of the data plane writes it.
func (u *usage) addLease(renewed time.Time) {
	u.t.Helper()
	u.create(renewed, new(int32(inuse.CoverFor(time.Minute)/time.Second)))
}

// create adds a Lease; without a duration it is as the controllers write it.
func (u *usage) create(renewed time.Time, seconds *int32) {
	u.t.Helper()
	lease := &coordinationv1.Lease{
		ObjectMeta: placementMeta(demoID, placement.ActivityLease),
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: renewed}, LeaseDurationSeconds: seconds},
	}
	if _, err := u.client.CoordinationV1().Leases(lease.Namespace).Create(u.t.Context(), lease, metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
}

// request is a request that lasts for a while.
func (u *usage) request(lasts time.Duration) {
	used := u.Begin(demoID)
	time.Sleep(lasts) // the fake clock's
	used.End(time.Now())
	synctest.Wait()
}

// writes are the times at which the Lease was written since the beginning; failed writes too.
func (u *usage) patches() int {
	n := 0
	for _, action := range u.client.Actions() {
		if action.Matches("patch", "leases") {
			n++
		}
	}
	return n
}

// renewed is how long after the beginning the Lease says that the instance was used.
func (u *usage) renewed() time.Duration {
	u.t.Helper()
	lease, err := u.client.CoordinationV1().Leases(demoID.Namespace()).Get(context.Background(), placement.ActivityLease, metav1.GetOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	return lease.Spec.RenewTime.Sub(u.begun)
}

func TestUseIsWrittenAtOnceAndThenOnceInAMinute(t *testing.T) {
	for name, c := range map[string]struct {
		renewed time.Duration // before the beginning; negative for no Lease
		use     func(u *usage)
		patches int
		want    time.Duration // what the Lease says, after the beginning
	}{
		"a request after a while is written at once": {
			time.Hour, func(u *usage) { u.request(0) }, 1, 0,
		},
		"a request to an instance that was never used is written at once": {
			time.Duration(1<<62) / 2, func(u *usage) { u.request(0) }, 1, 0,
		},
		"a second request within the minute waits": {
			time.Hour, func(u *usage) { u.request(0); time.Sleep(10 * time.Second); u.request(0) }, 1, 0,
		},
		"and is written when the minute is over": {
			time.Hour, func(u *usage) { u.request(0); time.Sleep(10 * time.Second); u.request(0); time.Sleep(time.Minute) }, 2, 10 * time.Second,
		},
		"requests all the time for five minutes are written once a minute": {
			time.Hour, func(u *usage) {
				for range 999 {
					u.request(300 * time.Millisecond)
				}
			}, 5, 4 * time.Minute,
		},
		"a stream is use as long as it is open": {
			time.Hour, func(u *usage) { u.request(10 * time.Minute); time.Sleep(time.Minute) }, 11, 10 * time.Minute,
		},
		"what another replica wrote a moment ago is waited for": {
			20 * time.Second, func(u *usage) { u.request(0) }, 0, -20 * time.Second,
		},
		"and counts from there": {
			20 * time.Second, func(u *usage) { u.request(0); time.Sleep(41 * time.Second) }, 1, 0,
		},
		"a later time than ours is not taken back": {
			-1, func(u *usage) {
				u.addLease(u.begun.Add(5 * time.Minute))
				synctest.Wait()
				u.request(0)
				time.Sleep(2 * time.Minute)
			}, 0, 5 * time.Minute,
		},
		"a Lease that comes later is written when it is there": {
			-1, func(u *usage) {
				u.request(0)
				time.Sleep(time.Second)
				u.addLease(u.begun.Add(-time.Hour))
				synctest.Wait()
			}, 1, 0, // what is not there is not written
		},
		"what was not written yet is written at the end": {
			time.Hour, func(u *usage) { u.request(0); time.Sleep(10 * time.Second); u.request(0); u.Flush() }, 2, 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUsage(t, c.renewed)
				c.use(u)
				synctest.Wait()
				if got := u.patches(); got != c.patches {
					t.Errorf("%d writes, want %d", got, c.patches)
				}
				if got := u.renewed(); got != c.want {
					t.Errorf("the Lease says %s after the beginning, want %s", got, c.want)
				}
				u.stop()
			})
		})
	}
}

func TestAnInstanceThatNobodyUsesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage(t, time.Hour)
		u.request(90 * time.Second)
		if got := u.count(); got != 1 {
			t.Errorf("%d instances are remembered, want the one in use", got)
		}
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		if got := u.count(); got != 0 {
			t.Errorf("%d instances are remembered", got)
		}
		u.stop()
	})
}

func TestAWriteThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage(t, time.Hour)
		fails := 5
		u.client.PrependReactor("patch", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			if fails--; fails >= 0 {
				return true, nil, errors.New("the API server is away")
			}
			return false, nil, nil
		})
		u.request(0)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := u.patches(); got != 6 {
			t.Errorf("%d writes, want 5 that failed and one", got)
		}
		if got := u.renewed(); got != 0 {
			t.Errorf("the Lease says %s after the beginning", got)
		}
		u.stop()
	})
}

func TestAFlushThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage(t, time.Hour)
		hold := make(chan struct{})
		u.client.PrependReactor("patch", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-hold
			return false, nil, nil
		})
		u.request(0)
		began := time.Now()
		u.Flush()
		if took := time.Since(began); took != flushTimeout {
			t.Errorf("it took %s, want %s", took, flushTimeout)
		}
		close(hold)
		u.stop()
	})
}

// The controllers write a record when they have made an instance and when its spec changes. It covers less
// than an interval, and a log that was opened in it was cut when that was over.
func TestAStreamThatBeginsInARecordOfTheControllersIsNotCut(t *testing.T) {
	for _, age := range []time.Duration{0, 3 * time.Second, 20 * time.Second, 44 * time.Second, 50 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			u := newUsage(t, -1)
			u.create(u.begun.Add(-age), nil)
			synctest.Wait()
			u.client.ClearActions()
			stream := u.Begin(demoID)
			if refused := u.Recorded(t.Context(), stream, demoID); refused != nil {
				t.Fatal(refused)
			}
			for range 600 {
				time.Sleep(500 * time.Millisecond)
				if left := stream.Left(time.Now()); left <= 0 {
					t.Fatalf("begun %v after the record, the stream is cut %v later", age, time.Since(u.begun))
				}
			}
			if n := u.patches(); n > 6 {
				t.Errorf("begun %v after the record: %d writes in 5 minutes", age, n)
			}
			u.stop()
		})
	}
}

// An instance that is used for a moment, and then again just after the interval: the record of the
// first use tells the controllers when that ended, and covers the second for what is left from then.
func TestAReplicaCountsOnNoMoreThanTheLeaseSays(t *testing.T) {
	for _, interval := range []time.Duration{time.Minute, 10 * time.Minute} {
		t.Run(interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUsage(t, 2*time.Hour)
				limits := &limit.Limits{ActivityInterval: interval}
				limits.SetDefaults()
				u.Activity.limits = func() *limit.Limits { return limits }
				u.use()
				time.Sleep(200 * time.Millisecond)
				u.use()
				time.Sleep(interval + time.Second)
				synctest.Wait()
				stream := u.Begin(demoID)
				if refused := u.Recorded(t.Context(), stream, demoID); refused != nil {
					t.Fatal(refused)
				}
				for range int(2*interval/time.Second) + 5 {
					lease, err := u.client.CoordinationV1().Leases(demoID.Namespace()).Get(t.Context(), placement.ActivityLease, metav1.GetOptions{})
					if err != nil {
						t.Fatal(err)
					}
					record := inuse.RecordOf(lease)
					if left, says := stream.Left(time.Now()), time.Until(record.Used.Add(record.Covers)); left > says+time.Second || left <= 0 {
						t.Fatalf("the replica goes on for %v, and the Lease says %v", left, says)
					}
					time.Sleep(time.Second)
					synctest.Wait()
				}
				stream.End(time.Now())
				u.stop()
			})
		})
	}
}
