// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/wake"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// asleep begins a world with the demo asleep: no pod is ready, and its Lease is old.
func asleep(s *setup) {
	s.objects = append(s.objects, &coordinationv1.Lease{
		ObjectMeta: fixture.Meta(demoID, placement.ActivityLease),
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now().Add(-time.Hour)}},
	})
	s.suspended = sandbarv1alpha1.SuspendedUnused
}

// wakesWithin sets how long requests wait.
func wakesWithin(timeout time.Duration) func(*setup) {
	return func(s *setup) { s.template.Spec.DataPlane.WakeTimeout = &metav1.Duration{Duration: timeout} }
}

// suspend sets why the demo is suspended; empty resumes it.
func (w *world) suspend(cause sandbarv1alpha1.SuspensionCause) {
	w.t.Helper()
	instances := w.kros.Resource(runners).Namespace(demoID.Namespace())
	demo, err := instances.Get(context.Background(), "demo", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	demo = demo.DeepCopy()
	setSuspension(demo, cause)
	if _, err := instances.Update(context.Background(), demo, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the data plane knows", func() bool {
		known := w.server.kinds.Find(locate.Route{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"}).Instances.Get(demoID.Namespace(), "demo")
		return known != nil && wake.Suspension(known) == cause
	})
}

func setSuspension(instance *unstructured.Unstructured, cause sandbarv1alpha1.SuspensionCause) {
	instance.Object["spec"].(map[string]any)["suspended"] = cause != ""
	instance.SetAnnotations(nil)
	if cause != "" {
		instance.SetAnnotations(map[string]string{placement.AnnotationSuspension: string(cause)})
	}
}

// putToSleep makes a placement one without pods.
func putToSleep(objects []runtime.Object, instance *unstructured.Unstructured, cause sandbarv1alpha1.SuspensionCause) {
	isReady := false
	setSuspension(instance, cause)
	for _, obj := range objects {
		if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
			slice.Endpoints[0].Conditions.Ready = &isReady
		}
	}
}

// setReady makes the demo's pods ready, or not.
func (w *world) setReady(is bool) {
	w.t.Helper()
	slices := w.runtime.DiscoveryV1().EndpointSlices(demoID.Namespace())
	list, err := slices.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &is}
		if _, err := slices.Update(context.Background(), &list.Items[i], metav1.UpdateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// used waits until the Lease says that the demo is in use.
func (w *world) used() {
	w.t.Helper()
	eventually(w.t, "the Lease is written", func() bool {
		lease, err := w.runtime.CoordinationV1().Leases(demoID.Namespace()).Get(context.Background(), placement.ActivityLease, metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime != nil && time.Since(lease.Spec.RenewTime.Time) < time.Minute
	})
}

// holds waits until so many requests wait for the demo.
func (w *world) holds(n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d requests wait", n), func() bool {
		here, all := w.server.handler.wakes.HeldForTest(demoID.Namespace())
		return here == n && all == n
	})
}

// wakeUp does what the controllers, kro and the kubelet do.
func (w *world) wakeUp() {
	w.t.Helper()
	w.used()
	w.suspend("")
	w.setReady(true)
}

func (w *world) leaseWrites() int {
	n := 0
	for _, action := range w.runtime.(*fake.Clientset).Actions() {
		if action.Matches("patch", "leases") && action.GetNamespace() == demoID.Namespace() {
			n++
		}
	}
	return n
}

// answered is what became of a request.
type answered struct {
	code int
	body string
	res  *http.Response
}

// later sends a request beside the test.
func (w *world) later(method, path, body string, change ...func(*http.Request)) <-chan answered {
	out := make(chan answered, 1)
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	for _, c := range change {
		c(req)
	}
	go func() {
		res, err := w.client.Do(req)
		if err != nil {
			out <- answered{body: err.Error()}
			return
		}
		defer res.Body.Close()
		data, _ := io.ReadAll(res.Body)
		out <- answered{res.StatusCode, string(data), res}
	}()
	return out
}

// counter is an app that counts what reaches it.
type counter struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	c.seen[string(body)]++
	_, _ = w.Write(body)
}

func TestFiftyRequestsAtOnceAreOneWakeAndEachArrivesOnce(t *testing.T) {
	app := &counter{}
	w := newWorld(t, app, asleep)
	var all []<-chan answered
	for i := range 50 {
		all = append(all, w.later("POST", demo+"sync", fmt.Sprintf("request %d", i)))
	}
	w.holds(50)
	if len(app.seen) != 0 {
		t.Errorf("the app was asked before it was ready: %v", app.seen)
	}
	w.wakeUp()
	for i, one := range all {
		if got := <-one; got.code != 200 || got.body != fmt.Sprintf("request %d", i) {
			t.Errorf("request %d: %d %s", i, got.code, got.body)
		}
	}
	for i := range 50 {
		if n := app.seen[fmt.Sprintf("request %d", i)]; n != 1 {
			t.Errorf("request %d arrived %d times", i, n)
		}
	}
	if n := w.leaseWrites(); n != 1 {
		t.Errorf("the Lease was written %d times", n)
	}
	w.holds(0)
}

// What was written before it slept wakes nothing, and the next write would be a minute away.
func TestAnInstanceThatWasUsedJustBeforeItSleptIsWokenAtOnce(t *testing.T) {
	w := newWorld(t, &counter{}, usedLongAgo)
	if res, body := w.do("POST", demo+"sync", adminToken, strings.NewReader("x")); res.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", res.StatusCode, body)
	}
	w.used()
	w.suspend(sandbarv1alpha1.SuspendedUnused)
	w.setReady(false)
	got := w.later("POST", demo+"sync", "y")
	w.holds(1)
	eventually(t, "the Lease is written again", func() bool { return w.leaseWrites() == 2 })
	w.wakeUp()
	if got := <-got; got.code != 200 {
		t.Errorf("got %d %s", got.code, got.body)
	}
}

func TestEverythingThatLeadsToTheInstanceWaitsForIt(t *testing.T) {
	pod := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/echo" {
			conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer conn.Close()
			kind, message, err := conn.ReadMessage()
			if err == nil {
				_ = conn.WriteMessage(kind, message)
			}
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+r.Method+" "+r.URL.RequestURI()+"\n\n")
	})
	for name, send := range map[string]func(t *testing.T, w *world) string{
		"a request": func(t *testing.T, w *world) string { return (<-w.later("POST", demo+"sync?a=b", "x")).body },
		"events":    func(t *testing.T, w *world) string { return (<-w.later("GET", demo+"log?follow=true", "")).body },
		"a request to the app": func(t *testing.T, w *world) string {
			return (<-w.later("PUT", demo+"proxy/some/path?q", "")).body
		},
		"a WebSocket": func(t *testing.T, w *world) string {
			conn, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.url, "http")+demo+"echo", http.Header{"Authorization": {"Bearer " + adminToken}})
			if err != nil {
				return err.Error()
			}
			defer conn.Close()
			_ = conn.WriteMessage(websocket.TextMessage, []byte("hello"))
			_, message, _ := conn.ReadMessage()
			return string(message)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]string{
				"a request": "data: POST /sync?a=b\n\n", "events": "data: GET /logs?follow=true\n\n",
				"a request to the app": "data: PUT /some/path?q\n\n", "a WebSocket": "hello",
			}[name]
			w := newWorld(t, pod, asleep)
			got := make(chan string, 1)
			go func() { got <- send(t, w) }()
			w.holds(1)
			w.wakeUp()
			if got := <-got; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A pod that is ready may not listen yet: nothing was sent, and nothing is told to the caller.
func TestARequestWaitsUntilTheAppListens(t *testing.T) {
	address := unheardAddress(t)
	w := newWorld(t, nil, asleep, func(s *setup) { s.backendAddress = address })
	got := w.later("POST", demo+"sync", "x")
	w.holds(1)
	w.wakeUp()
	eventually(t, "the app was tried", func() bool {
		return w.server.handler.ways.RefusedForTest() > 0
	})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	app := &httptest.Server{Listener: listener, Config: &http.Server{Handler: &counter{}}}
	app.Start()
	t.Cleanup(app.Close)
	if got := <-got; got.code != 200 || got.body != "x" {
		t.Errorf("got %d %s", got.code, got.body)
	}
}

// A request to an app that does not listen at all gets the usual error soon, and not when the time for an
// instance to wake is over, which is a minute, and ten at most.
func TestAnAppThatDoesNotListenAfterAWakeIsToldOfSoon(t *testing.T) {
	address := unheardAddress(t)
	_, port, _ := net.SplitHostPort(address)
	rule := "does not accept connections on port " + port + ": is its process listening? It must listen at that port, on all addresses (0.0.0.0 or ::) and not on loopback"
	w := newPreviewWorld(t, nil, asleep, wakesWithin(10*time.Minute), func(s *setup) { s.backendAddress = address })
	w.server.handler.wakes.SetPatienceForTest(300 * time.Millisecond)
	got := w.later("POST", demo+"proxy", "x")
	w.holds(1)
	w.wakeUp()
	answer := <-got
	if answer.code != http.StatusBadGateway || !strings.Contains(answer.body, rule) {
		t.Errorf("got %d %s", answer.code, answer.body)
	}
	began := time.Now()
	if answer := <-w.later("POST", demo+"proxy", "x"); answer.code != http.StatusBadGateway || time.Since(began) > 5*time.Second {
		t.Errorf("the next one: %d %s", answer.code, answer.body)
	}
	res, page := w.browse(http.MethodGet, "/", w.enter(w.link("")), navigating)
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(page, rule) {
		t.Errorf("a browser: %d %s", res.StatusCode, page)
	}
}

// Another replica may have woken the instance: this one sees only that it resumes.
func TestARequestToAnInstanceThatResumesWaits(t *testing.T) {
	w := newWorld(t, &counter{}, asleep)
	w.suspend("")
	got := w.later("POST", demo+"sync", "x")
	w.holds(1)
	w.setReady(true)
	if got := <-got; got.code != 200 {
		t.Errorf("got %d %s", got.code, got.body)
	}
	// It is up now; when it breaks later, that is not a wake.
	w.setReady(false)
	w.server.handler.wakes.Stop()
	eventually(t, "409 is answered", func() bool { return (<-w.later("POST", demo+"sync", "x")).code == 409 })
}

// Such a stream had no owner: each was cut at its first look, after 15 to 25 seconds, and a change of its owner's rights
// did not find it.
func TestAStreamThatBeginsJustAfterAWakeIsItsOwners(t *testing.T) {
	began, ends := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(ends) })
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			return
		}
		_ = http.NewResponseController(w).Flush()
		close(began)
		<-ends
		_, _ = io.WriteString(w, "the end\n")
	}), asleep)
	t.Cleanup(end)
	woken := w.later("POST", demo+"sync", "x")
	w.holds(1)
	w.wakeUp()
	if got := <-woken; got.code != 200 {
		t.Fatalf("got %d %s", got.code, got.body)
	}
	got := w.later("GET", demo+"log", "")
	<-began
	streams := w.server.handler.live.of("cluster1", demoID.UID)
	if len(streams) != 1 {
		t.Fatalf("%d streams are the demo's", len(streams))
	}
	if refused := streams[0].stillAllowed(time.Now()); refused != nil {
		t.Errorf("its look says %v", refused)
	}
	end()
	if got := <-got; got.code != 200 || got.body != "the end\n" {
		t.Errorf("got %d %q", got.code, got.body)
	}
}

func TestWhatWaitsHearsWhyItIsNotServed(t *testing.T) {
	for name, c := range map[string]struct {
		during  func(w *world)
		timeout time.Duration
		code    int
		told    string
		reason  string
	}{
		"suspended by its tenant meanwhile": {func(w *world) { w.suspend(sandbarv1alpha1.SuspendedByUser) }, time.Minute, 409, "spec.suspended to false", "suspended"},
		"its time is over meanwhile":        {func(w *world) { w.suspend(sandbarv1alpha1.SuspendedExpired) }, time.Minute, 409, "a later spec.lifecycle.shutdownTime", "expired"},
		"deleted meanwhile": {func(w *world) {
			if err := w.kros.Resource(runners).Namespace(demoID.Namespace()).Delete(context.Background(), "demo", metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, time.Minute, 404, "no such instance", "deleting"},
		"the controllers are down": {func(w *world) { w.used() }, 300 * time.Millisecond, 503, "did not wake within 300ms", "wake_timeout"},
		"the pod does not come":    {func(w *world) { w.suspend("") }, 300 * time.Millisecond, 503, "did not wake within 300ms", "wake_timeout"},
		"the caller may no more": {func(w *world) {
			w.kcp.grant(adminToken)
			w.server.handler.authorizer.Forget("cluster1", time.Now())
			w.wakeUp()
		}, time.Minute, 403, "access denied", "denied"},
		"the server drains": {func(w *world) { w.server.drain() }, time.Minute, 503, "shutting down", "draining"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := &counter{}
			w := newWorld(t, app, asleep, wakesWithin(c.timeout))
			got := w.later("POST", demo+"sync", "x")
			w.used()
			c.during(w)
			a := <-got
			if status := wantStatus(t, a.res, a.body, c.code); !strings.Contains(status.Message, c.told) {
				t.Errorf("it was told %q, not %q", status.Message, c.told)
			}
			if c.code == 503 && a.res.Header.Get("Retry-After") == "" {
				t.Error("there is no Retry-After")
			}
			eventually(t, "the reason is logged", func() bool { return w.lastReason() == c.reason })
			w.holds(0)
			if len(app.seen) != 0 {
				t.Error("the app has heard of it")
			}
		})
	}
}

func TestACallerThatLeavesFreesItsPlace(t *testing.T) {
	w := newWorld(t, &counter{}, asleep)
	ctx, leave := context.WithCancel(t.Context())
	got := w.later("GET", demo+"log", "", func(r *http.Request) { *r = *r.WithContext(ctx) })
	w.holds(1)
	leave()
	<-got
	w.holds(0)
	eventually(t, "the reason is logged", func() bool { return w.lastReason() == refusal.CauseClientGone })
}

func TestWhatDoesNotSleepIsNotWoken(t *testing.T) {
	for name, c := range map[string]struct {
		cause sandbarv1alpha1.SuspensionCause
		told  string
	}{
		"suspended by its tenant":   {sandbarv1alpha1.SuspendedByUser, "spec.suspended to false"},
		"its time is over":          {sandbarv1alpha1.SuspendedExpired, "a later spec.lifecycle.shutdownTime"},
		"a cause that nobody knows": {"Whatever", "spec.suspended to false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &counter{}, asleep, func(s *setup) { s.suspended = c.cause })
			res, body := w.do("POST", demo+"sync", adminToken, strings.NewReader("x"))
			if status := wantStatus(t, res, body, 409); !strings.Contains(status.Message, c.told) {
				t.Errorf("it was told %q, not %q", status.Message, c.told)
			}
			if res.Header.Get("Retry-After") != "" {
				t.Error("it is told to try again, which does not help")
			}
			if err := w.stop(); err != nil {
				t.Fatal(err)
			}
			if n := w.leaseWrites(); n != 0 {
				t.Errorf("the Lease was written %d times", n)
			}
		})
	}
}

func TestAWakeIsCounted(t *testing.T) {
	w := newWorld(t, &counter{}, asleep)
	got := w.later("POST", demo+"sync", "x")
	w.holds(1)
	w.wantMetrics(`sandbar_dataplane_held 1`)
	w.wakeUp()
	<-got
	w.wantMetrics(`sandbar_dataplane_held 0`, `sandbar_dataplane_wake_duration_seconds_count{resource="sandboxrunners"} 1`,
		`sandbar_dataplane_held_duration_seconds_count{result="served"} 1`)
}

func (w *world) wantMetrics(lines ...string) {
	w.t.Helper()
	for _, line := range lines {
		eventually(w.t, line, func() bool {
			res, err := w.client.Get(w.metrics + "/metrics")
			if err != nil {
				return false
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			return strings.Contains("\n"+string(body), "\n"+line+"\n")
		})
	}
}

// A request to an instance that is awake, which is nearly every one, pays next to nothing.
func TestAnAwakeInstanceCostsNoAllocation(t *testing.T) {
	w := newWorld(t, &counter{})
	x := &exchange{request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)}
	instance := kroInstance(demoID, "demo", nil)
	at := &locate.Place{ID: demoID.Locate(), Instance: instance}
	var refused atomic.Bool
	if n := testing.AllocsPerRun(100, func() {
		if _, r := w.server.handler.awake(x, at, sandbarv1alpha1.Endpoint{}); r != nil {
			refused.Store(true)
		}
		x.use.End(time.Now())
	}); n > 0 || refused.Load() {
		t.Errorf("%v allocations; refused: %v", n, refused.Load())
	}
}

// unheardAddress is an address where nobody listens, yet.
func unheardAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
