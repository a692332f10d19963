// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// newRoutedWorld has an instance with workloads and routing. The part with the copies is ready.
func newRoutedWorld(t *testing.T) (w *world, copies, routes *heaps) {
	t.Helper()
	w, copies = newCompoundWorld(t)
	routes = &heaps{t: t}
	w.routes = routes
	w.settings.Compound.Fields.RoutingFrom = "routing"
	w.settings.Compound.Route = routeKind(w.settings.Compound.Fields)
	w.inKCP.Object["spec"].(map[string]any)["routing"] = map[string]any{
		"provider":      "gateway",
		"gateway":       map[string]any{"parentRefs": []any{map[string]any{"namespace": "edge", "name": "public"}}, "hostnames": []any{"shop.example.com"}},
		"interceptions": []any{map[string]any{"name": "web", "routeTo": map[string]any{"workload": "a", "port": int64(80)}}},
	}
	w.restAll(copies, routes)
	copies.says("Ready", "True")
	w.restAll(copies, routes)
	return w, copies, routes
}

// restAll reconciles until nothing is written any more.
func (w *world) restAll(all ...*heaps) {
	w.t.Helper()
	for range 6 {
		before := 0
		for _, h := range all {
			before += len(h.writes)
		}
		w.patches = nil
		if _, err := w.reconciler().Reconcile(w.t.Context(), testRequest); err != nil {
			w.t.Fatal(err)
		}
		for _, h := range all {
			before -= len(h.writes)
		}
		if before == 0 && len(w.patches) == 0 {
			return
		}
	}
	w.t.Fatalf("still writing at rest: %v", w.patches)
}

// attached is what the controller of routes writes.
func (h *heaps) attached(status, reason string) {
	h.part.Object["status"] = map[string]any{
		"observedGeneration": h.part.GetGeneration(), "sandboxID": "sbx-abcd1234",
		"endpoints":  []any{map[string]any{"rule": "web", "url": "https://shop.example.com/", "hostname": "shop.example.com", "path": "/"}},
		"conditions": []any{map[string]any{"type": "Attached", "status": status, "reason": reason, "message": "m"}},
	}
}

func (w *world) routeName() string {
	name, _, _ := unstructured.NestedString(w.inKCP.Object, "status", "underlyingRefs", "sandboxRouteName")
	return name
}

func TestACompoundInstanceWithRoutingHasARoute(t *testing.T) {
	w, copies, routes := newRoutedWorld(t)
	if routes.part == nil || routes.part.GetKind() != "SandboxRoute" || !slices.Equal(routes.writes, []string{"create"}) {
		t.Fatalf("%v, writes %v", routes.part, routes.writes)
	}
	w.wantPhase("Materializing", "Attached", "Pending")
	routes.attached("True", "RouteAttached")
	w.restAll(copies, routes)
	w.wantPhase("Ready", "Attached", "RouteAttached")
	if endpoints, _, _ := unstructured.NestedSlice(w.inKCP.Object, "status", "endpoints"); len(endpoints) != 1 || w.routeName() != "web" {
		t.Errorf("%v, the route is %q", endpoints, w.routeName())
	}
	routes.attached("False", "NotAllowed")
	w.restAll(copies, routes)
	w.wantPhase("Degraded", "Ready", "NotAllowed")
	w.changeSpec("suspended", true)
	w.restAll(copies, routes)
	if routes.part == nil || routes.part.GetDeletionTimestamp() != nil {
		t.Error("suspended it has no route")
	}
}

func TestWithoutRoutingTheRouteGoesAndNobodyAsksForOne(t *testing.T) {
	w, copies, routes := newRoutedWorld(t)
	routes.attached("True", "RouteAttached")
	w.restAll(copies, routes)
	w.changeSpec("routing", nil)
	delete(w.inKCP.Object["spec"].(map[string]any), "routing")
	w.restAll(copies, routes)
	if routes.part.GetDeletionTimestamp() == nil {
		t.Fatal("it stays")
	}
	w.wantPhase("Materializing", "Attached", "ResourcesPending")
	routes.part = nil
	w.restAll(copies, routes)
	w.wantPhase("Ready", "Attached", "NoRouting")
	if w.routeName() != "" {
		t.Errorf("the status has the route %s", w.routeName())
	}
	routes.err = errors.New("nobody should ask")
	w.restAll(copies, routes)
}

// The process ended before it wrote the status, and the routing went meanwhile.
func TestARouteThatNoStatusTellsOfGoes(t *testing.T) {
	w, copies, routes := newRoutedWorld(t)
	unstructured.RemoveNestedField(w.inKCP.Object, "status", "underlyingRefs")
	delete(w.inKCP.Object["spec"].(map[string]any), "routing")
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
	w.restAll(copies, routes)
	if routes.part.GetDeletionTimestamp() == nil {
		t.Error("it stays")
	}
}

// Requests must not be led to copies that go.
func TestADeletedCompoundInstanceEndsItsRouteFirst(t *testing.T) {
	w, copies, routes := newRoutedWorld(t)
	w.inKCP.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	w.restAll(copies, routes)
	w.wantPhase("Deleting", "Attached", outcome.ReasonDeleting)
	if message := fixture.ConditionOf(t, w.inKCP, "Ready").Message; message != "waiting for SandboxRoute web to be removed" {
		t.Errorf("it says %q", message)
	}
	if routes.part.GetDeletionTimestamp() == nil || copies.part.GetDeletionTimestamp() != nil {
		t.Error("the copies go before the route, or the route stays")
	}
	if group, _, _ := unstructured.NestedString(w.inKCP.Object, "status", "underlyingRefs", "sandboxGroupName"); group != "web" {
		t.Errorf("the status has the group %q", group)
	}
	routes.part = nil
	w.restAll(copies, routes)
	if copies.part.GetDeletionTimestamp() == nil {
		t.Error("the copies stay")
	}
	copies.part = nil
	if err := w.reconcile(); err != nil || w.inKCP != nil {
		t.Errorf("it is still there: %v", err)
	}
}

func TestARouteIsCorrectedWithoutAFight(t *testing.T) {
	w, copies, routes := newRoutedWorld(t)
	at := time.Now()
	w.now = func() time.Time { return at }
	elsewhere := map[string]any{"spec": map[string]any{"selectorHeaderName": "x-theirs"}}
	header := func() string {
		name, _, _ := unstructured.NestedString(routes.part.Object, "spec", "selectorHeaderName")
		return name
	}
	routes.changed(elsewhere)
	if w.restAll(copies, routes); header() != "baggage" {
		t.Error("it is not corrected")
	}
	routes.changed(elsewhere)
	if w.restAll(copies, routes); header() != "x-theirs" {
		t.Error("it is corrected again at once")
	}
	w.wantPhase("Degraded", "Applied", "ApplyFailed")
	// The copies are another part: what was corrected of the route does not hold them up.
	copies.changed(map[string]any{"spec": map[string]any{"components": []any{}}})
	w.restAll(copies, routes)
	if components, _, _ := unstructured.NestedSlice(copies.part.Object, "spec", "components"); len(components) != 1 {
		t.Error("the copies wait for the route")
	}
	at = at.Add(correctAgain)
	if w.restAll(copies, routes); header() != "baggage" {
		t.Error("it is never corrected again")
	}
}

func TestWhatIsWrongWithARouteKeepsNobodyFromTheCopies(t *testing.T) {
	w, copies, routes := newRoutedWorld(t)
	routes.attached("True", "RouteAttached")
	w.restAll(copies, routes)
	away := errors.New("connection refused")
	routes.err = away
	w.changeSpec("suspended", true)
	if err := w.reconcile(); !errors.Is(err, away) || !copies.suspended() {
		t.Errorf("%v, the copies are suspended: %t", err, copies.suspended())
	}
	if c := fixture.ConditionOf(t, w.inKCP, "Attached"); c.Reason != "RouteAttached" {
		t.Errorf("Attached says %+v", c)
	}
	if c := fixture.ConditionOf(t, w.inKCP, "Suspended"); c.Status != metav1.ConditionTrue {
		t.Errorf("Suspended says %+v", c)
	}
}

func TestACompoundInstanceTellsThatRoutesAreNotFollowed(t *testing.T) {
	w, copies, routes := newRoutedWorld(t)
	routes.attached("True", "RouteAttached")
	w.restAll(copies, routes)
	at := time.Now()
	w.now = func() time.Time { return at }
	w.routes, w.settings.Since = nil, at
	if result := w.rest(copies); result.RequeueAfter != followedIn {
		t.Errorf("while the provider starts it is looked at again in %v", result.RequeueAfter)
	}
	w.wantPhase("Ready", "Ready", "WorkloadsReady")
	at = at.Add(followedIn)
	if result := w.rest(copies); result.RequeueAfter != recheck {
		t.Errorf("it is looked at again in %v", result.RequeueAfter)
	}
	w.wantPhase("Degraded", "Applied", "ApplyFailed")
	if message := fixture.ConditionOf(t, w.inKCP, "Applied").Message; !strings.Contains(message, "follows the kind SandboxRoute") || w.routeName() != "web" {
		t.Errorf("it says %q, and has the route %q", message, w.routeName())
	}
	w.inKCP.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	if result := w.rest(copies); result.RequeueAfter != recheck || copies.part.GetDeletionTimestamp() != nil {
		t.Error("what may be led to copies that go is not waited for")
	}
	w.routes = routes
	routes.part = nil
	w.rest(copies)
	if copies.part.GetDeletionTimestamp() == nil {
		t.Error("the copies stay")
	}
}

// A provider that was upgraded offers no routes until init is run: what has none is as before.
func TestACompoundInstanceWithoutRoutingNeedsNoRoutes(t *testing.T) {
	w, h := newCompoundWorld(t)
	w.settings.Compound.Fields.RoutingFrom = "routing"
	w.settings.Compound.Route = routeKind(w.settings.Compound.Fields)
	w.rest(h)
	h.says("Ready", "True")
	w.rest(h)
	w.wantPhase("Ready", "Attached", "NoRouting")
	w.inKCP.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	w.rest(h)
	h.part = nil
	if err := w.reconcile(); err != nil || w.inKCP != nil {
		t.Errorf("it cannot be deleted: %v", err)
	}
}

func TestTheKindOfRoutesIsOneOfTheRegister(t *testing.T) {
	fields := sandbarv1alpha1.CompoundFields{RoutingFrom: "routing"}
	if got := routeKind(fields); got.GVK.Kind != builtin.SandboxRoute || got.Resource != "sandboxroutes" {
		t.Errorf("%+v", got)
	}
	if got := routeKind(sandbarv1alpha1.CompoundFields{}); got != (export.Kind{}) {
		t.Errorf("without a field for routing: %+v", got)
	}
}
