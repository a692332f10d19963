// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/lifecycle"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Of what a caller can do, only what leads to the instance is use of it.
func TestWhatCountsAsUse(t *testing.T) {
	for name, c := range map[string]struct {
		method, path, token string
		used                bool
	}{
		"a verb":                             {"POST", demo + "sync", adminToken, true},
		"the preview":                        {"GET", demo + "proxy/", adminToken, true},
		"the log":                            {"GET", demo + "log", adminToken, true},
		"the status is not":                  {"GET", demo + "status", adminToken, false},
		"the catalogue is not":               {"GET", "/dataplane/clusters/root:acme:dev/templates", adminToken, false},
		"a verb that there is not is not":    {"GET", demo + "nothing", adminToken, false},
		"a caller without the right is none": {"POST", demo + "sync", "token-of-nobody", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lease := &coordinationv1.Lease{ObjectMeta: fixture.Meta(demoID, placement.ActivityLease)}
			w := newWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(s *setup) { s.objects = append(s.objects, lease) })
			w.do(c.method, c.path, c.token, nil)
			if err := w.stop(); err != nil { // which writes what is to be written
				t.Fatal(err)
			}
			got, err := w.runtime.CoordinationV1().Leases(demoID.Namespace()).Get(t.Context(), placement.ActivityLease, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if used := got.Spec.RenewTime != nil; used != c.used {
				t.Errorf("used: %v, want %v", used, c.used)
			}
		})
	}
}

// A stream ends when its use is not on record any more, and when the replica may not serve any more.
func TestAStreamEndsWithItsRecordAndWithTheFence(t *testing.T) {
	for name, c := range map[string]struct {
		renewed, covered time.Duration
		cause            string
		after            time.Duration
	}{
		"its record ends":                {time.Hour, 7 * time.Second, refusal.CauseUnrecorded, 7 * time.Second},
		"the replica's Lease ends":       {0, time.Hour, refusal.CauseFenced, inuse.FenceAfter},
		"the replica's Lease ends first": {-10 * time.Second, 25 * time.Second, refusal.CauseFenced, inuse.FenceAfter - 10*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				start := time.Now()
				h, u := &handler{live: newLive(nil), fence: &inuse.Fence{}}, lifecycle.UseForTest(start, c.covered)
				h.fence.Renew(start.Add(c.renewed))
				s := &supervisor{h: h, x: &exchange{use: u}, ctx: ctx, cancel: cancel}
				s.checking = true // there is nobody to ask about the right
				s.begin(start)
				defer s.stop()
				<-ctx.Done()
				if cut := refusal.CauseOf(ctx); cut == nil || cut.Cause != c.cause || time.Since(start) != c.after {
					t.Errorf("cut by %v after %v, want %s after %v", cut, time.Since(start), c.cause, c.after)
				}
			})
		})
	}
}

// The whole of it, over HTTP: a replica that has lost the runtime cluster says so at its probe, refuses
// all callers, ends their streams, and serves again when it is back.
func TestAReplicaThatLosesTheRuntimeClusterIsUnreadyAndServesNobody(t *testing.T) {
	w := newWorld(t, follower())
	stream := w.follow(adminToken)
	var away atomic.Bool
	away.Store(true)
	w.fake().PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return away.Load() && action.GetNamespace() == placement.SystemNamespace, nil, errAway
	})
	w.server.handler.fence.Renew(time.Now().Add(time.Second - inuse.FenceAfter)) // a second is left
	eventually(t, "the stream has ended", func() bool { return hasEnded(stream) })
	eventually(t, "the access line is there", func() bool { return w.lastReason() == refusal.CauseFenced })
	for _, path := range []string{demo + "sync", demo + "status", "/dataplane/clusters/root:acme:dev/templates"} {
		res, body := w.do(http.MethodPost, path, adminToken, strings.NewReader("x"))
		if status := wantStatus(t, res, body, http.StatusServiceUnavailable); !strings.Contains(status.Message, "another replica") || res.Header.Get("Retry-After") == "" || !res.Close {
			t.Errorf("%s: %q", path, status.Message)
		}
	}
	probe := func() int {
		res, err := w.client.Get(w.metrics + pathReady)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := probe(); got != http.StatusServiceUnavailable {
		t.Errorf("the probe answers %d", got)
	}
	w.wantMetrics("sandbar_dataplane_fenced 1")
	away.Store(false)
	if err := w.server.registration.beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is ready again", func() bool { return probe() == http.StatusOK })
	if hasEnded(w.follow(adminToken)) {
		t.Error("a stream ends at once")
	}
	w.wantMetrics("sandbar_dataplane_fenced 0")
}

func TestARenewalSaysYesOnlyWhenItIsOnRecord(t *testing.T) {
	w := newWorld(t, nil, usedLongAgo)
	w.fake().PrependReactor("patch", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errAway })
	ctx, cancel := context.WithTimeout(t.Context(), lifecycle.RecordWait/20)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+demo+"renew", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	if res, err := w.client.Do(req); err == nil {
		defer res.Body.Close()
		t.Errorf("it is answered %d", res.StatusCode)
	}
}

// fake is the runtime cluster, to make it fail.
func (w *world) fake() *fake.Clientset { return w.runtime.(*fake.Clientset) }

// A verb waits for its record, and no pod hears of it before.
func TestNoPodHearsOfAUseThatIsNotOnRecord(t *testing.T) {
	app := &counter{}
	w := newWorld(t, app, usedLongAgo)
	var away atomic.Bool
	away.Store(true)
	w.fake().PrependReactor("patch", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return away.Load() && action.GetNamespace() == demoID.Namespace(), nil, errAway
	})
	got := w.later("POST", demo+"sync", "x")
	eventually(t, "its use is to be written", func() bool { return w.leaseWrites() > 2 })
	app.mu.Lock()
	if len(app.seen) != 0 {
		t.Error("the pod has heard of it")
	}
	app.mu.Unlock()
	away.Store(false)
	if got := <-got; got.code != http.StatusOK {
		t.Errorf("when it is on record: %d %s", got.code, got.body)
	}
}

// A request that has waited for a sleeping instance, while the replica lost the runtime cluster, meets
// the fence before it meets the pod.
func TestARequestThatWaitedIsNotServedBehindTheFence(t *testing.T) {
	app := &counter{}
	w := newWorld(t, app, asleep)
	got := w.later("POST", demo+"sync", "x")
	w.holds(1)
	w.fake().PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetNamespace() == placement.SystemNamespace, nil, errAway
	})
	w.server.handler.fence.Renew(time.Now().Add(-inuse.FenceAfter))
	w.wakeUp()
	a := <-got
	wantStatus(t, a.res, a.body, http.StatusServiceUnavailable)
	eventually(t, "the reason is logged", func() bool { return w.lastReason() == refusal.CauseFenced })
	if len(app.seen) != 0 {
		t.Error("the app has heard of it")
	}
}

var errAway = errors.New("the API server is away")
