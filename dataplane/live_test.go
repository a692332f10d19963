// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

// follower is a pod whose log says something and then nothing for as long as one listens.
func follower() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
}

// follow opens the demo's log and returns what is told when it ends.
func (w *world) follow(token string) (ended <-chan struct{}) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+demo+"log", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, len("hello\n"))); err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatalf("got %d, %v", res.StatusCode, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}()
	return done
}

func (w *world) deleteInstance() {
	w.t.Helper()
	if err := w.kros.Resource(runners).Namespace(demoID.Namespace()).Delete(context.Background(), "demo", metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// putOffLooks leaves it to what happens to end the streams that are there.
func (w *world) putOffLooks() {
	for _, c := range w.server.handler.live.of("cluster1", "") {
		c.mu.Lock()
		c.due, c.readEnd = time.Now().Add(time.Hour), time.Time{}
		c.timer.Reset(time.Until(c.next()))
		c.mu.Unlock()
	}
}

func hasEnded(stream <-chan struct{}) bool {
	select {
	case <-stream:
		return true
	default:
		return false
	}
}

// What happens ends a stream, without a look that time brings.
func TestWhatHappensEndsStreamsAtOnce(t *testing.T) {
	going := fakeBinding{path: "root:acme:dev", phase: "Bound", accepted: true, deleting: true}
	for name, c := range map[string]struct {
		happens func(*world)
		cause   string
		unasked bool // kcp has nothing to add
	}{
		"the binding begins to go, while the instance is still there": {func(w *world) { w.kcp.bind("cluster1", going) }, refusal.CauseCut, false},
		"the binding is gone, and the kind with it": {func(w *world) {
			w.kcp.set(func() { clear(w.kcp.instances) })
			w.kcp.unbind("cluster1")
		}, refusal.CauseInstanceEnded, false},
		"the instance on the runtime cluster is gone": {func(w *world) { w.deleteInstance() }, refusal.CauseInstanceEnded, true},
		"the placement's namespace begins to go": {func(w *world) {
			ctx, now := context.Background(), metav1.Now()
			namespaces := w.runtime.CoreV1().Namespaces()
			ns, err := namespaces.Get(ctx, demoID.Namespace(), metav1.GetOptions{})
			if err != nil {
				w.t.Fatal(err)
			}
			ns.DeletionTimestamp, ns.Finalizers = &now, []string{"x/y"}
			if _, err := namespaces.Update(ctx, ns, metav1.UpdateOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, refusal.CauseInstanceEnded, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, follower())
			w.watched()
			one, other := w.follow(adminToken), w.follow(adminToken)
			w.putOffLooks()
			asked := w.kcp.questions()
			c.happens(w)
			eventually(t, "the streams have ended", func() bool { return hasEnded(one) && hasEnded(other) })
			eventually(t, "the access line is there", func() bool { return w.lastReason() == c.cause })
			if again := w.kcp.questions(); again != asked && c.unasked {
				t.Errorf("kcp was asked %d times about an instance whose placement ends", again-asked)
			}
		})
	}
}

// A change that takes nothing from a caller ends nothing, and makes kcp be asked once for all of
// its streams.
func TestAChangeThatTakesNothingEndsNothing(t *testing.T) {
	w := newWorld(t, follower())
	w.watched()
	streams := []<-chan struct{}{w.follow(adminToken), w.follow(adminToken), w.follow(adminToken)}
	before := w.kcp.reviews.Load()
	hold := make(chan struct{})
	w.kcp.set(func() { w.kcp.hold = hold })
	w.kcp.bind("cluster1", fakeBinding{path: "root:acme:dev", phase: "Bound"}) // the claim is withdrawn: of no concern to a token
	hold <- struct{}{}                                                         // kcp has a question, and the streams wait for the answer
	eventually(t, "all streams ask", func() bool {
		n := 0
		for _, c := range w.server.handler.live.of("cluster1", "") {
			c.mu.Lock()
			if c.checking {
				n++
			}
			c.mu.Unlock()
		}
		return n == len(streams)
	})
	close(hold)
	eventually(t, "all streams have their answer", func() bool {
		for _, c := range w.server.handler.live.of("cluster1", "") {
			c.mu.Lock()
			checking := c.checking
			c.mu.Unlock()
			if checking {
				return false
			}
		}
		return true
	})
	if got := w.kcp.reviews.Load() - before; got != 1 {
		t.Errorf("kcp was asked %d times for three streams of one caller", got)
	}
	for _, ended := range streams {
		select {
		case <-ended:
			t.Error("a stream ended")
		default:
		}
	}
}

// What kcp said before a binding changed is not used again, and a flight that began before it is
// not joined.
func TestAChangedBindingVoidsCachedAnswers(t *testing.T) {
	w := newWorld(t, recorder())
	w.watched()
	ask := func(code int) int64 {
		t.Helper()
		before := w.kcp.reviews.Load()
		if res, body := w.do("GET", demo+"log", adminToken, nil); res.StatusCode != code {
			t.Fatalf("got %d %s, want %d", res.StatusCode, body, code)
		}
		return w.kcp.reviews.Load() - before
	}
	ask(200)
	if asked := ask(200); asked != 0 {
		t.Fatalf("kcp was asked %d times again", asked)
	}
	w.kcp.bind("other", fakeBinding{path: "root:other", phase: "Bound"})
	w.kcp.bind("other", fakeBinding{path: "root:other", phase: "Bound", accepted: true})
	eventually(t, "the other binding is known", func() bool { return w.server.handler.authorizer.ChangedForTest("other") })
	if asked := ask(200); asked != 0 {
		t.Errorf("another workspace's binding made kcp be asked %d times", asked)
	}
	w.kcp.set(func() { w.kcp.rights[adminToken] = map[string]bool{"access": true} })
	if asked := ask(200); asked != 0 {
		t.Fatalf("kcp was asked %d times of a right that is cached", asked)
	}
	w.kcp.bind("cluster1", fakeBinding{path: "root:acme:dev", phase: "Bound"})
	eventually(t, "the change is known", func() bool { return w.server.handler.authorizer.ChangedForTest("cluster1") })
	ask(403)
}

// Who asks since a moment is not given the answer to a question that was put before it.
func TestAnEarlierFlightIsNotJoined(t *testing.T) {
	w := newWorld(t, recorder())
	a := w.server.handler.authorizer
	q := access.Question{
		Caller: tenant.Bearer(adminToken), Subresource: "log", Verb: "get", Declared: true,
		Ref: tenant.Ref{Workspace: "cluster1", Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners", Namespace: "default", Name: "demo"},
	}
	defer a.HoldForTest(q, access.Grant{}, refusal.Forbidden())()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, refused := a.Since(ctx, q, time.Now()); refused != nil {
		t.Errorf("got %v", refused)
	}
}

// Nor is a stream, of what happened after the question.
func TestAStreamDoesNotWaitForAnAnswerFromBeforeItsBindingChanged(t *testing.T) {
	w := newWorld(t, follower())
	w.watched()
	stream := w.follow(adminToken)
	w.putOffLooks()
	q := w.server.handler.live.of("cluster1", "")[0].x.question
	defer w.server.handler.authorizer.HoldForTest(q, access.Grant{Owner: demoOwner}, nil)()
	w.kcp.set(func() { w.kcp.rights[adminToken] = map[string]bool{"access": true} })
	w.kcp.bind("cluster1", fakeBinding{path: "root:acme:dev", phase: "Bound"})
	eventually(t, "the stream has ended", func() bool { return hasEnded(stream) })
}

func TestRequestsThatEndLeaveNothingBehind(t *testing.T) {
	w := newWorld(t, recorder())
	for range 3 {
		w.do("GET", demo+"log", adminToken, nil)
	}
	l := w.server.handler.live
	eventually(t, "no request is under way", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.clusters) == 0
	})
}

// A withdrawn right ends a stream within 30 s even if nothing tells of it.
func TestALookIsNeverLate(t *testing.T) {
	if latest := recheckAfter + recheckSpread + access.RecheckAge; latest > 30*time.Second {
		t.Errorf("a stream may go on for %v", latest)
	}
	if recheckAfter < 15*time.Second {
		t.Errorf("streams ask every %v", recheckAfter)
	}
	soonest, latest := time.Hour, time.Duration(0)
	for range 1000 {
		d := jittered()
		if d < recheckAfter || d >= recheckAfter+recheckSpread {
			t.Fatalf("the next look is in %v", d)
		}
		soonest, latest = min(soonest, d), max(latest, d)
	}
	if latest-soonest < recheckSpread/2 {
		t.Errorf("streams that begin together all ask between %v and %v later", soonest, latest)
	}
}

// What kcp said a while ago does for a look only if it is young, or a right would last longer by as
// long as answers are kept.
func TestALookTakesAnAnswerThatIsYoungAndNoOther(t *testing.T) {
	for age, want := range map[time.Duration]int64{access.RecheckAge - time.Second: 0, access.RecheckAge + time.Second: 1} {
		t.Run(fmt.Sprintf("one of %v has kcp asked %d times", age, want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				who, err := access.NewCallerLimiter(func() *limit.Limits { asked.Add(1); return &limit.Limits{} }) // called right before kcp
				if err != nil {
					t.Fatal(err)
				}
				a, err := access.New(nil, nil, access.Options{CacheSize: 10, Concurrency: 1}, who, access.NewMetrics(prometheus.NewRegistry()))
				if err != nil {
					t.Fatal(err)
				}
				h := &handler{live: newLive(nil), authorizer: a, settings: &settings{}}
				h.settings.current.Store(&snapshot{limits: limit.Limits{KcpTolerance: time.Hour}})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				q := access.Question{Caller: tenant.Bearer("opaque"), Verb: "get"}
				s := &supervisor{h: h, x: &exchange{question: q}, ctx: ctx, cancel: cancel, lastGood: time.Now()}
				s.begin(time.Now())
				defer s.stop()
				a.KeepForTest(q, access.Grant{}, refusal.TooMany(refusal.CauseQuestions, "", 0), time.Hour)
				time.Sleep(age)
				s.now(time.Time{})
				synctest.Wait()
				if got := asked.Load(); got != want {
					t.Errorf("kcp was asked %d times", got)
				}
			})
		})
	}
}

// An endpoint may have a shorter time than all streams have, and no longer one.
func TestAnEndpointHasACeilingOfItsOwn(t *testing.T) {
	for name, c := range map[string]struct{ all, endpoint int32 }{
		"the endpoint's": {all: 3600, endpoint: 1},
		"that of all":    {all: 1, endpoint: 3600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, follower(), func(s *setup) {
				log := s.template.Spec.DataPlane.Endpoints["log"]
				log.StreamDurationSeconds = c.endpoint
				s.template.Spec.DataPlane.Endpoints["log"] = log
				s.opts.Limits.StreamDuration = time.Duration(c.all) * time.Second
			})
			stream := w.follow(adminToken)
			eventually(t, "the stream is cut", func() bool { return hasEnded(stream) })
			eventually(t, "the cut is counted", func() bool {
				return strings.Contains(w.scrape(), `cuts_total{reason="stream_ceiling",verb="log"} 1`)
			})
		})
	}
}
