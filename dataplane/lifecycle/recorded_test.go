// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// use begins a request, as the handler does, and returns what it is told and how long that took.
func (u *usage) use() (refused *refusal.Error, took time.Duration) {
	began := time.Now()
	used := u.Begin(demoID)
	refused = u.Recorded(u.t.Context(), used, demoID)
	took = time.Since(began)
	used.End(time.Now())
	synctest.Wait()
	return refused, took
}

// refuses has the API server refuse the writes of Leases, or not.
func (u *usage) refuses(with error) (heal func()) {
	var healed atomic.Bool
	u.client.PrependReactor("patch", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !healed.Load(), nil, with
	})
	return func() { healed.Store(true) }
}

var errAway = errors.New("the API server is away")

func TestARequestIsLetThroughWhenItsUseIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage(t, time.Hour)
		if refused, took := u.use(); refused != nil || took != 0 || u.patches() != 1 {
			t.Errorf("%v after %v and %d writes", refused, took, u.patches())
		}
		lease, err := u.client.CoordinationV1().Leases(demoID.Namespace()).Get(t.Context(), placement.ActivityLease, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := inuse.RecordOf(lease); !got.Used.Equal(u.begun) || got.Covers != 90*time.Second {
			t.Errorf("the record is %+v", got)
		}
		u.stop()
	})
}

// An API that is away for less than the grace costs an instance in use nothing; an instance that is
// not in use waits for it, and is refused when it takes too long.
func TestWhatCannotBeRecordedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage(t, time.Hour)
		u.use()
		heal := u.refuses(errAway)
		for range 89 {
			time.Sleep(time.Second)
			if refused, took := u.use(); refused != nil || took != 0 {
				t.Fatalf("%v after its record: %v after %v", time.Since(u.begun), refused, took)
			}
		}
		time.Sleep(time.Second)
		refused, took := u.use()
		if refused == nil || refused.Cause != refusal.CauseUnrecorded || refused.Code != http.StatusServiceUnavailable || refused.RetryAfter == 0 || took != RecordWait {
			t.Errorf("%v after its record: %v after %v", time.Since(u.begun), refused, took)
		}
		heal()
		if refused, took := u.use(); refused != nil || took > activityRetryMost {
			t.Errorf("when the API is back: %v after %v", refused, took)
		}
		u.stop()
	})
}

func TestARequestThatWaitsGoesOnWhenTheAPIComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage(t, time.Hour)
		heal := u.refuses(errAway)
		time.AfterFunc(4*time.Second, heal)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				used := u.Begin(demoID)
				if refused := u.Recorded(t.Context(), used, demoID); refused != nil || time.Since(u.begun) > 4*time.Second+activityRetryMost {
					t.Errorf("%v after %v", refused, time.Since(u.begun))
				}
				used.End(time.Now())
			})
		}
		all.Wait()
		u.stop()
	})
}

func TestACallerThatLeavesWaitsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage(t, time.Hour)
		u.refuses(errAway)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		used := u.Begin(demoID)
		if refused := u.Recorded(ctx, used, demoID); refused == nil || refused.Cause != refusal.CauseClientGone || time.Since(u.begun) != time.Second {
			t.Errorf("%v after %v", refused, time.Since(u.begun))
		}
		u.stop()
	})
}

// The version in a write keeps one that was decided by an old Lease, or was delayed, from taking back
// what another replica has recorded since.
func TestARecordIsWrittenUnderTheVersionThatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage(t, time.Hour)
		var versions []string
		u.client.PrependReactor("patch", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			var body leasePatch
			if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &body); err != nil {
				t.Error(err)
			}
			versions = append(versions, body.Metadata.ResourceVersion)
			if body.Metadata.ResourceVersion == "new" {
				return false, nil, nil
			}
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, placement.ActivityLease, nil)
		})
		u.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: demoID.Namespace(), Name: placement.ActivityLease, ResourceVersion: "new"},
				Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: u.begun.Add(-time.Minute)}},
			}, nil
		})
		if refused, took := u.use(); refused != nil || took != 0 {
			t.Errorf("%v after %v", refused, took)
		}
		if len(versions) != 2 || versions[1] != "new" {
			t.Errorf("written under the versions %q", versions)
		}
		u.stop()
	})
}

// While the controllers are about to delete an instance, nobody is let through; the record makes them
// look again.
func TestNobodyUsesWhatIsAboutToBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage(t, time.Hour)
		mark := func(on bool) {
			leases := u.client.CoordinationV1().Leases(demoID.Namespace())
			lease, err := leases.Get(t.Context(), placement.ActivityLease, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			lease.Annotations = nil
			if on {
				lease.Annotations = map[string]string{placement.AnnotationEnding: "now"}
			}
			if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		mark(true)
		if refused, took := u.use(); refused == nil || refused.Cause != refusal.CauseUnrecorded || took != RecordWait {
			t.Errorf("%v after %v", refused, took)
		}
		if u.renewed() < 0 {
			t.Error("the controllers do not hear of it")
		}
		time.AfterFunc(time.Second, func() { mark(false) })
		if refused, took := u.use(); refused != nil || took < time.Second || took > 2*activityRetryMost {
			t.Errorf("when they have looked again: %v after %v", refused, took)
		}
		u.stop()
	})
}

// A replica whose clock is behind would write that an instance in use was used long ago.
func TestARecordGoesByTheLaterClock(t *testing.T) {
	for name, behind := range map[string]time.Duration{"the replica's clock is behind": time.Hour, "it is ahead": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUsage(t, 2*time.Hour)
				u.Clock = &inuse.Clock{Local: func() time.Time { return time.Now().Add(-behind) }}
				u.Clock.Heard(inuse.Runtime, time.Now())
				if refused, _ := u.use(); refused != nil {
					t.Fatal(refused)
				}
				if got, want := u.renewed(), max(0, -behind); got != want {
					t.Errorf("the record says %v after the beginning, want %v", got, want)
				}
				u.stop()
			})
		})
	}
}

func TestWithoutALeaseTheControllersTakeNothingAndRequestsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage(t, -1)
		if refused, took := u.use(); refused != nil || took != 0 {
			t.Errorf("%v after %v", refused, took)
		}
		u.stop()
	})
}
