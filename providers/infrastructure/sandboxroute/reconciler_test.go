// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/follow"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
)

const (
	accepted = `{type: Accepted, status: "True", reason: Accepted, observedGeneration: 1}`
	resolved = `{type: ResolvedRefs, status: "True", reason: ResolvedRefs, observedGeneration: 1}`
)

func TestARouteLeadsOnceTheGatewayTakesIt(t *testing.T) {
	w := newWorld(t)
	w.route.SetFinalizers(nil)
	w.look()
	if got := w.route.GetFinalizers(); !slices.Equal(got, []string{finalizer}) || len(w.there) > 0 {
		t.Fatalf("before anything is made it has the finalizers %v, and there are %d HTTPRoutes", got, len(w.there))
	}
	if c := w.look(); c.Status != metav1.ConditionUnknown || c.Reason != sandbarv1alpha1.RoutePending || !strings.Contains(c.Message, "edge/public") {
		t.Errorf("%+v", c)
	}
	one := w.there[types.NamespacedName{Namespace: placed, Name: "preview"}]
	if one == nil {
		t.Fatalf("there are %v", w.there)
	}
	if labels := one.GetLabels(); labels[placement.LabelRouteUID] != "r" || labels[placement.LabelInstanceUID] != "g" || ownerOf(one) != key {
		t.Errorf("it is of %v: %v", ownerOf(one), labels)
	}
	rules, _, _ := unstructured.NestedSlice(one.Object, "spec", "rules")
	if text := fmt.Sprint(rules); !strings.Contains(text, sandboxID) || !strings.Contains(text, "checkout-web-svc") {
		t.Errorf("its rules are %v", rules)
	}
	w.says(accepted + "," + resolved)
	if c := w.look(); c.Status != metav1.ConditionTrue || c.Reason != sandbarv1alpha1.RouteAttached || c.ObservedGeneration != 3 {
		t.Errorf("%+v", c)
	}
	status := w.status()
	if status.SandboxID != sandboxID || !slices.Equal(status.Hostnames, []string{"shop.example.com"}) || status.AttachedResource == nil ||
		*status.AttachedResource != (sandbarv1alpha1.SandboxRouteResource{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute", Namespace: placed, Name: "preview"}) {
		t.Errorf("%+v", status)
	}
	if diff := cmp.Diff([]sandbarv1alpha1.SandboxRouteEndpoint{{Rule: "web", URL: "https://shop.example.com/", Hostname: "shop.example.com", Path: "/"}}, status.Endpoints); diff != "" {
		t.Errorf("the endpoints (-want +got):\n%s", diff)
	}
	if !slices.Equal(w.told, []export.Key{key, key}) {
		t.Errorf("of two statuses somebody was told %d times", len(w.told))
	}
	if !slices.Equal(w.events, []string{"Normal RouteAttached"}) {
		t.Errorf("its events are %q", w.events)
	}
	if got := counted(t, sandbarv1alpha1.RouteAttached); got != 1 {
		t.Errorf("%v routes are counted as attached", got)
	}
	before, applied := w.writes, w.applied
	if w.look(); w.writes != before || w.applied != applied {
		t.Error("it writes what is there already")
	}
	if unstructured.RemoveNestedField(one.Object, "spec", "hostnames"); w.look().Status != metav1.ConditionTrue || w.applied != applied+1 {
		t.Errorf("what somebody has changed is written %d times", w.applied-applied)
	}
}

// counted is how many routes have a reason, by the metric.
func counted(t *testing.T, reason string) float64 {
	t.Helper()
	var m dto.Metric
	must(t, routesGauge.WithLabelValues(reason).Write(&m))
	return m.GetGauge().GetValue()
}

func TestWhatIsRefusedIsToldAndLeadsNowhere(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		reason string
		says   string
	}{
		"another provider": {func(w *world) {
			w.set(`{spec: {provider: istio, gateway: null, istio: {gateways: [a/b], hosts: [c]}}}`)
		}, sandbarv1alpha1.RouteProviderUnavailable, "spec.provider: istio is not offered here"},
		"a Service of the Baseline": {func(w *world) {
			w.set(`{spec: {rules: [{name: web, backends: [{service: {name: frontend, port: 80}}]}]}}`)
		}, sandbarv1alpha1.RouteProviderUnavailable, "spec.rules[0].backends[0].service: Services of the Baseline are not offered"},
		"no Gateway API": {func(w *world) { w.known = follow.Unserved }, sandbarv1alpha1.RouteProviderUnavailable, "no Gateway API"},
		"no groups":      {func(w *world) { w.unplaced = instance.ErrNoKind }, sandbarv1alpha1.RouteProviderUnavailable, "offers no SandboxGroups"},
		"no group named": {func(w *world) { w.set(`{spec: {sandboxGroupRef: null}}`) }, sandbarv1alpha1.RouteInvalidSpec, "spec.sandboxGroupRef"},
		"another group": {func(w *world) {
			w.set(`{spec: {sandboxGroupRef: {name: other}}}`)
		}, sandbarv1alpha1.RouteResolveFailed, "there is no SandboxGroup other in namespace storefront"},
		"a group without copies": {func(w *world) { w.unplaced = instance.ErrNotPlaced }, sandbarv1alpha1.RouteResolveFailed, "SandboxGroup checkout has no copies yet"},
		"a group that goes": {func(w *world) {
			now := metav1.Now()
			w.place.Group = &metav1.ObjectMeta{Name: "checkout", DeletionTimestamp: &now}
		}, sandbarv1alpha1.RouteResolveFailed, "is being deleted"},
		"a Baseline that is withdrawn": {func(w *world) { w.place.Baseline = nil }, sandbarv1alpha1.RouteNotAllowed, "is not for this workspace any more"},
		"another hostname": {func(w *world) {
			w.set(`{spec: {gateway: {hostnames: [shop.example.org]}}}`)
		}, sandbarv1alpha1.RouteNotAllowed, "hostname shop.example.org is not one that Baseline shop admits; it admits *.example.com"},
		"another Gateway": {func(w *world) {
			w.set(`{spec: {gateway: {parentRefs: [{namespace: kube-system, name: public}]}}}`)
		}, sandbarv1alpha1.RouteNotAllowed, "Gateway kube-system/public is not one that Baseline shop admits"},
		"a Gateway that is not there": {func(w *world) { w.gateways = nil }, sandbarv1alpha1.RouteResolveFailed, "has no Gateway edge/public"},
		"another component": {func(w *world) {
			w.set(`{spec: {rules: [{name: web, backends: [{component: {name: shop, port: 80}}]}]}}`)
		}, sandbarv1alpha1.RouteResolveFailed, "has no component shop; it has web, api"},
		"a component without a Service": {func(w *world) {
			w.set(`{spec: {rules: [{name: web, backends: [{component: {name: api, port: 80}}]}]}}`)
		}, sandbarv1alpha1.RouteResolveFailed, "component api has no Service yet"},
		"another port": {func(w *world) {
			w.set(`{spec: {rules: [{name: web, backends: [{component: {name: web, port: 81}}]}]}}`)
		}, sandbarv1alpha1.RouteResolveFailed, "spec.rules[0].backends[0].component.port: component web has no port 81; it has 9090, http (80)"},
		"the header of the host": {func(w *world) {
			w.set(`{spec: {selectorHeaderName: Host}}`)
		}, sandbarv1alpha1.RouteInvalidSpec, "selectorHeaderName"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.look()
			w.says(accepted + "," + resolved)
			if c := w.look(); c.Status != metav1.ConditionTrue {
				t.Fatalf("%+v", c)
			}
			c.change(w)
			got := w.look()
			if got.Status != metav1.ConditionFalse || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
				t.Errorf("%s %s: %s", got.Status, got.Reason, got.Message)
			}
			if len(w.there) > 0 || w.status().AttachedResource != nil {
				t.Errorf("it still leads by %v", w.there)
			}
			if last := w.events[len(w.events)-1]; last != "Warning "+c.reason {
				t.Errorf("the last event is %s", last)
			}
			result, err := w.r.Reconcile(t.Context(), key)
			if again := result.RequeueAfter == lookAgain; err != nil || again != (c.reason == sandbarv1alpha1.RouteResolveFailed) {
				t.Errorf("it is looked at again after %v, %v", result.RequeueAfter, err)
			}
		})
	}
}

// A kcp that does not answer must not end what leads.
func TestAnErrorEndsNothing(t *testing.T) {
	w := newWorld(t)
	w.look()
	w.unplaced = errors.New("the path of the workspace is not known yet")
	if _, err := w.r.Reconcile(t.Context(), key); !errors.Is(err, w.unplaced) || len(w.there) != 1 {
		t.Errorf("%v; there are %d HTTPRoutes", err, len(w.there))
	}
}

func TestADeletedRouteEndsBeforeItGoes(t *testing.T) {
	w := newWorld(t)
	w.look()
	now := metav1.Now()
	w.route.SetDeletionTimestamp(&now)
	w.place, w.unplaced = nil, instance.ErrNoKind
	if _, err := w.r.Reconcile(t.Context(), key); err != nil || w.route != nil || len(w.there) > 0 {
		t.Errorf("%v; the route is %v, and there are %d HTTPRoutes", err, w.route, len(w.there))
	}
	if got := counted(t, sandbarv1alpha1.RoutePending); got != 0 {
		t.Errorf("%v routes are counted", got)
	}
}

func TestWhatARouteHasLeftGoesWhenItIsSeen(t *testing.T) {
	w := newWorld(t)
	w.look()
	w.route = nil // with its finalizer, by force
	if _, err := w.r.Reconcile(t.Context(), key); err != nil || len(w.there) > 0 {
		t.Errorf("%v; there are %d HTTPRoutes", err, len(w.there))
	}
}

func TestAnHTTPRouteOfSomebodyElseStays(t *testing.T) {
	w := newWorld(t)
	theirs := objectOf(t, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: `+placed+`, name: preview}, spec: {hostnames: [a.example.com]}}`)
	w.there[nameOf(theirs)] = theirs
	if c := w.look(); c.Reason != sandbarv1alpha1.RouteOwnershipConflict || !strings.Contains(c.Message, "another name") {
		t.Errorf("%+v", c)
	}
	if w.there[nameOf(theirs)] != theirs {
		t.Error("it was written over")
	}
}

func TestAQuotaThatIsUsedUpIsTold(t *testing.T) {
	w := newWorld(t)
	w.full = true
	c := w.look()
	if c.Reason != sandbarv1alpha1.RouteAttachFailed || !strings.Contains(c.Message, "count/httproutes") || !strings.Contains(c.Message, "fewer SandboxRoutes") {
		t.Errorf("%+v", c)
	}
	if result, err := w.r.Reconcile(t.Context(), key); err != nil || result.RequeueAfter != lookAgain {
		t.Errorf("it is looked at again after %v, %v", result.RequeueAfter, err)
	}
	w.full = false
	if c := w.look(); c.Reason != sandbarv1alpha1.RoutePending {
		t.Errorf("%+v", c)
	}
}

func TestFewerRulesLeaveNoHTTPRoute(t *testing.T) {
	w := newWorld(t)
	rules := []string{}
	for name := range strings.FieldsSeq("a b c d e f g h i j k l m n o p q r") {
		rules = append(rules, `{name: r-`+name+`, matches: [{path: {type: Exact, value: /r-`+name+`}}], backends: [{component: {name: web, port: http}}]}`)
	}
	w.set(`{spec: {rules: [` + strings.Join(rules, ", ") + `]}}`)
	w.look()
	if len(w.there) != 2 {
		t.Fatalf("18 rules make %d HTTPRoutes", len(w.there))
	}
	w.set(`{spec: {rules: [` + rules[0] + `]}}`)
	w.look()
	if len(w.there) != 1 {
		t.Errorf("1 rule leaves %d HTTPRoutes", len(w.there))
	}
}

func TestWhatTheGatewaySaysIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		said, reason, says string
		status             metav1.ConditionStatus
	}{
		"nothing":             {"", sandbarv1alpha1.RoutePending, "has not said yet", metav1.ConditionUnknown},
		"of a former version": {`{type: Accepted, status: "True", reason: Accepted, observedGeneration: 0}`, sandbarv1alpha1.RoutePending, "has not said yet", metav1.ConditionUnknown},
		"taken":               {accepted + "," + resolved, sandbarv1alpha1.RouteAttached, "are led", metav1.ConditionTrue},
		"not admitted": {
			`{type: Accepted, status: "False", reason: NotAllowedByListeners, message: no listener admits it, observedGeneration: 1}`,
			sandbarv1alpha1.RouteAttachFailed, "edge/public: NotAllowedByListeners: no listener admits it", metav1.ConditionFalse,
		},
		"without its backend": {
			accepted + `, {type: ResolvedRefs, status: "False", reason: BackendNotFound, observedGeneration: 1}`,
			sandbarv1alpha1.RouteAttachFailed, "edge/public: BackendNotFound", metav1.ConditionFalse,
		},
	} {
		w := newWorld(t)
		w.look()
		w.says(c.said)
		if got := w.look(); got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %s %s: %s", name, got.Status, got.Reason, got.Message)
		}
	}
}

// otherRoute is an HTTPRoute of the environment's.
func otherRoute(t *testing.T, rule string) *seen {
	t.Helper()
	return keep(otherObject(t, rule))
}

func otherObject(t *testing.T, rule string) *unstructured.Unstructured {
	t.Helper()
	return objectOf(t, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: prod, name: shop, creationTimestamp: "1970-01-01T00:00:01Z"}, spec: {
		parentRefs: [{namespace: edge, name: public}], hostnames: [shop.example.com], rules: [`+rule+`]}}`)
}

func TestRequestsThatOthersTakeAreTold(t *testing.T) {
	w := newWorld(t)
	w.look()
	w.says(accepted + "," + resolved)
	w.foreign = []*seen{otherRoute(t, `{matches: [{path: {type: PathPrefix, value: /api}}]}`)}
	if c := w.look(); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "1 in status.shadowed") {
		t.Errorf("%+v", c)
	}
	if got := w.status().Shadowed; len(got) != 1 || got[0].Rule != "web" || got[0].By != "prod/shop" || !strings.Contains(got[0].Message, "/api") {
		t.Errorf("%+v", got)
	}
	w.set(`{spec: {rules: [{name: web, matches: [{path: {type: PathPrefix, value: /api/v1}}], backends: [{component: {name: web, port: http}}]}]}}`)
	w.foreign = []*seen{otherRoute(t, `{matches: [{path: {type: Exact, value: /api/v1}}, {path: {type: PathPrefix, value: /api/v1}, method: GET}]}`)}
	w.set(`{spec: {rules: [{name: web, matches: [{path: {type: PathPrefix, value: /api/v1}, method: GET}], backends: [{component: {name: web, port: http}}]}]}}`)
	if c := w.look(); c.Status != metav1.ConditionTrue {
		t.Errorf("more headers win over the same path and method: %+v", c)
	}
	w.foreign = []*seen{otherRoute(t, `{matches: [{path: {type: PathPrefix, value: /}}]}`)}
	if c := w.look(); c.Status != metav1.ConditionTrue || len(w.status().Shadowed) > 0 {
		t.Errorf("%+v, %+v", c, w.status().Shadowed)
	}
	w.set(`{spec: {rules: [{name: web, matches: [{path: {type: PathPrefix, value: /}}], backends: [{component: {name: web, port: http}}]}]}}`)
	w.foreign = []*seen{otherRoute(t, `{matches: [{path: {type: PathPrefix, value: /}, method: GET}]}`)}
	w.set(`{spec: {rules: [{name: web, matches: [{path: {type: PathPrefix, value: /}}], backends: [{component: {name: web, port: http}}]}]}}`)
	if c := w.look(); c.Status != metav1.ConditionTrue || len(w.status().Shadowed) != 1 {
		t.Errorf("%+v, %+v", c, w.status().Shadowed)
	}
}

func TestARouteAllOfWhoseRequestsOthersTakeIsNotAttached(t *testing.T) {
	w := newWorld(t)
	w.set(`{spec: {gateway: {hostnames: ["*.example.com"]}, rules: [{name: web, matches: [{path: {type: Exact, value: /a}}], backends: [{component: {name: web, port: http}}]}]}}`)
	w.look()
	w.says(accepted + "," + resolved)
	w.set(`{spec: {gateway: {hostnames: [shop.example.com]}}}`)
	w.foreign = []*seen{keep(objectOf(t, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: prod, name: shop, creationTimestamp: "1970-01-01T00:00:01Z"}, spec: {
		parentRefs: [{namespace: edge, name: public}], hostnames: [shop.example.com], rules: [{matches: [{path: {type: Exact, value: /a}, headers: [{name: baggage, type: RegularExpression, value: '`+selectorOf(t, w)+`'}]}]}]}}`))}
	if c := w.look(); c.Status != metav1.ConditionFalse || c.Reason != sandbarv1alpha1.RouteShadowed || !strings.Contains(c.Message, "prod/shop") {
		t.Errorf("%+v", c)
	}
}

// selectorOf is the value of the selector of the HTTPRoute that is there.
func selectorOf(t *testing.T, w *world) string {
	t.Helper()
	for _, one := range w.there {
		rules, _, _ := unstructured.NestedSlice(one.Object, "spec", "rules")
		matches := rules[0].(map[string]any)["matches"].([]any)
		return matches[0].(map[string]any)["headers"].([]any)[0].(map[string]any)["value"].(string)
	}
	t.Fatal("there is none")
	return ""
}

func TestAChangeWakesThoseThatItIsAbout(t *testing.T) {
	w := newWorld(t)
	w.look()
	woken, all := make(chan export.Key, 8), make(chan struct{}, 8)
	r := newRoutes(fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{httpRoutes: "HTTPRouteList"},
		w.there[types.NamespacedName{Namespace: placed, Name: "preview"}]))
	r.every = 50 * time.Millisecond
	r.wake, r.wakeAll = func(k export.Key) { woken <- k }, func() { all <- struct{}{} }
	t.Cleanup(func() { r.end(); r.wg.Wait() })
	r.list()
	if k := <-woken; k != key {
		t.Errorf("%v is looked at", k)
	}
	<-all // once all are known
	for range 3 {
		r.changed(otherRoute(t, `{}`))
	}
	if k := <-woken; k != key {
		t.Errorf("%v is looked at", k)
	}
	elsewhere := otherObject(t, `{}`)
	must(t, unstructured.SetNestedStringSlice(elsewhere.Object, []string{"blog.example.com"}, "spec", "hostnames"))
	r.changed(keep(elsewhere))
	r.changed(&seen{})
	time.AfterFunc(3*r.every, func() { woken <- export.Key{} })
	if k := <-woken; k != (export.Key{}) || len(all) > 0 {
		t.Errorf("for a hostname of others, and three changes at once, %v is looked at, and all: %d", k, len(all))
	}
}

func TestTheRoutesOfAGroupAreLookedAtWhenItChanges(t *testing.T) {
	w := newWorld(t)
	w.look()
	var woken []string
	routes := &Routes{}
	routes.GroupChanged(group) // before there is a controller
	routes.BaselinesChanged()
	routes.named, routes.wake = &w.r.named, func(k export.Key) { woken = append(woken, k.Name) }
	routes.GroupChanged(group)
	routes.GroupChanged(key)
	if !slices.Equal(woken, []string{"preview"}) {
		t.Errorf("%v are looked at", woken)
	}
}

func TestWhoseAnHTTPRouteIs(t *testing.T) {
	elsewhere := objectOf(t, `{apiVersion: a/v1, kind: A, metadata: {namespace: prod, name: a, labels: {sandbar.dev/route-uid: r}, annotations: {sandbar.dev/route-name: preview}}}`)
	if got := ownerOf(elsewhere); got != (export.Key{}) {
		t.Errorf("outside of placements it is said to be of %v", got)
	}
	w := newWorld(t)
	w.look()
	if kept := keep(w.there[types.NamespacedName{Namespace: placed, Name: "preview"}]); kept.of != key || kept.takes == nil {
		t.Errorf("%+v", kept)
	}
}

// The attack: one HTTPRoute that nobody can read keeps the status of all SandboxRoutes from being written.
func TestAnHTTPRouteThatCannotBeReadTakesNothing(t *testing.T) {
	w := newWorld(t)
	w.look()
	w.says(accepted + "," + resolved)
	w.foreign = []*seen{keep(objectOf(t, `{apiVersion: a/v1, kind: A, metadata: {namespace: prod, name: a}, spec: {rules: 5}}`)), otherRoute(t, `{matches: [{path: {type: PathPrefix, value: /api}}]}`)}
	if c := w.look(); c.Status != metav1.ConditionTrue || len(w.status().Shadowed) != 1 {
		t.Errorf("%+v, %+v", c, w.status().Shadowed)
	}
}
