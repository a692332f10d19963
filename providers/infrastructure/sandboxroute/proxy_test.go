// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/interception"
)

var target = types.NamespacedName{Namespace: "prod", Name: "frontend"}

// newProxyWorld is a world whose route is one of provider proxy.
func newProxyWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.set(`{spec: {provider: proxy, gateway: null, rules: [{name: web, targetServiceRef: {name: frontend}, backends: [{component: {name: web, port: http}}]}]}}`)
	must(t, yaml.Unmarshal([]byte(`{namespaces: [{name: prod, as: storefront}], routing: {proxy: {enabled: true}}}`), &w.place.Baseline.Spec))
	w.services["prod/frontend"] = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "frontend"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "frontend"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	return w
}

// taken has the proxies take what is asked for.
func (w *world) taken() {
	w.state = intercept.State{Reason: sandbarv1alpha1.RouteAttached, Applied: map[types.UID]string{}}
	for _, intents := range w.asked {
		for uid, intent := range intents {
			w.state.Applied[uid] = intent.Hash()
		}
	}
}

func TestARouteByProxyAsksAndSaysWhatCameOfIt(t *testing.T) {
	w := newProxyWorld(t)
	if c := w.look(); c.Status != metav1.ConditionUnknown || c.Reason != sandbarv1alpha1.RoutePending {
		t.Errorf("%+v", c)
	}
	intent := w.asked[target]["r"]
	if intent == nil || len(intent.Rules) != 1 || intent.Rules[0].ID != sandboxID || intent.Rules[0].Header != "baggage" ||
		intent.Rules[0].Backends[0].Address != "checkout-web-svc."+placed+".svc:80" {
		t.Fatalf("it asks for %+v", intent)
	}
	w.taken()
	if c := w.look(); c.Status != metav1.ConditionTrue || c.Reason != sandbarv1alpha1.RouteAttached {
		t.Errorf("%+v", c)
	}
	// The namespace is the alias: tenants do not see the names of the runtime cluster's.
	if status := w.status(); status.SandboxID != sandboxID || status.AttachedResource == nil ||
		*status.AttachedResource != (sandbarv1alpha1.SandboxRouteResource{APIVersion: "v1", Kind: "Service", Namespace: "storefront", Name: "frontend"}) {
		t.Errorf("%+v", status)
	}
	if before := w.writes; w.look().Status != metav1.ConditionTrue || w.writes != before {
		t.Error("it writes what is there already")
	}
	w.set(`{spec: {rules: [{name: web, targetServiceRef: {name: frontend}, matches: [{method: GET}], backends: [{component: {name: web, port: http}}]}]}}`)
	if w.look(); w.look().Reason != sandbarv1alpha1.RoutePending {
		t.Error("rules that the proxies do not have yet are said to be theirs")
	}
	if !slices.Equal(w.events, []string{"Normal RouteAttached"}) {
		t.Errorf("its events are %q", w.events)
	}
}

func TestWhatAProxyCannotDoIsToldAndAskedForNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		change       func(w *world)
		reason, says string
	}{
		"a Baseline without proxies": {func(w *world) { w.place.Baseline.Spec.Routing.Proxy.Enabled = false }, sandbarv1alpha1.RouteProviderUnavailable, "Baseline shop does not admit proxies"},
		"copies out of reach": {func(w *world) {
			w.place.Baseline.Spec.Network.ReachableFromBaseline = new(false)
		}, sandbarv1alpha1.RouteNotAllowed, "do not reach copies"},
		"another namespace": {func(w *world) {
			w.set(`{spec: {rules: [{name: web, targetServiceRef: {name: frontend, namespace: prod}, backends: [{component: {name: web, port: http}}]}]}}`)
		}, sandbarv1alpha1.RouteNotAllowed, "spec.rules[0].targetServiceRef.namespace: Baseline shop has no namespace prod; it has [storefront]"},
		"a Service that is not there": {func(w *world) { delete(w.services, "prod/frontend") }, sandbarv1alpha1.RouteResolveFailed, "no Service frontend"},
		"a Service that the Baseline leaves out": {func(w *world) {
			w.place.Baseline.Spec.Services.Names = []string{"api"}
		}, sandbarv1alpha1.RouteNotAllowed, "Service frontend is not one of Baseline shop"},
		"a headless Service": {func(w *world) {
			w.services["prod/frontend"].Spec.ClusterIP = "None"
		}, sandbarv1alpha1.RouteInvalidSpec, "spec.rules[0].targetServiceRef: Service frontend is headless"},
		"a group that is suspended":    {func(w *world) { w.place.Suspended = true }, sandbarv1alpha1.RouteSuspended, "SandboxGroup checkout is suspended"},
		"a Baseline that is withdrawn": {func(w *world) { w.place.Baseline = nil }, sandbarv1alpha1.RouteNotAllowed, "is not for this workspace any more"},
		"proxies that are not ready": {func(w *world) {
			w.state = intercept.State{Reason: sandbarv1alpha1.RouteProxyNotReady, Message: "they are not ready"}
		}, sandbarv1alpha1.RouteProxyNotReady, "they are not ready"},
		"somebody else's Service": {func(w *world) {
			w.state = intercept.State{Reason: sandbarv1alpha1.RouteOwnershipConflict, Message: "argocd writes it"}
		}, sandbarv1alpha1.RouteOwnershipConflict, "argocd writes it"},
		"no room for its rules": {func(w *world) {
			w.state.Refused = map[types.UID]string{"r": "more than the 512 rules"}
		}, sandbarv1alpha1.RouteAttachFailed, "more than the 512 rules"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newProxyWorld(t)
			w.look()
			w.taken()
			w.look()
			c.change(w)
			if got := w.look(); got.Status != metav1.ConditionFalse || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
				t.Errorf("%+v, want %s: %s", got, c.reason, c.says)
			}
			isRefused := w.state.Reason == sandbarv1alpha1.RouteAttached && w.state.Refused == nil
			if left := w.asked[target]["r"].Leaving; left != isRefused {
				t.Errorf("it asks for nothing any more: %t, want %t", left, isRefused)
			}
			if result, err := w.r.Reconcile(t.Context(), key); err != nil || c.reason == sandbarv1alpha1.RouteInvalidSpec && result.RequeueAfter != lookAgain {
				t.Errorf("it is looked at again after %v, %v", result.RequeueAfter, err)
			}
		})
	}
}

func TestWithoutTheRightTheCommandIsTold(t *testing.T) {
	w := newProxyWorld(t)
	w.askError = fmt.Errorf("namespace prod: %w", interception.ErrNotGranted)
	if c := w.look(); c.Reason != sandbarv1alpha1.RouteProviderUnavailable || !strings.Contains(c.Message, "sandbar-provider baseline grant shop") || strings.Contains(c.Message, "prod") {
		t.Errorf("%+v", c)
	}
	w.askError = fmt.Errorf("namespace prod: %w", interception.ErrFull)
	if c := w.look(); c.Reason != sandbarv1alpha1.RouteAttachFailed || !strings.Contains(c.Message, "delete a route") {
		t.Errorf("%+v", c)
	}
	w.askError = fmt.Errorf("asking: %w", interception.ErrShare)
	if c := w.look(); c.Reason != sandbarv1alpha1.RouteAttachFailed || !strings.Contains(c.Message, strconv.Itoa(intercept.MaxShareBytes)) || !strings.Contains(c.Message, "delete a route") {
		t.Errorf("%+v", c)
	}
	w.askError = errors.New("no answer")
	if _, err := w.r.Reconcile(t.Context(), key); err == nil {
		t.Error("an error that a retry mends is not one")
	}
}

func TestTheDeletionOfARouteWaitsForItsProxies(t *testing.T) {
	w := newProxyWorld(t)
	w.look()
	now := metav1.Now()
	w.route.SetDeletionTimestamp(&now)
	if result, err := w.r.Reconcile(t.Context(), key); err != nil || w.route == nil || result.RequeueAfter != lookAgain || !w.asked[target]["r"].Leaving {
		t.Fatalf("%v, %v: %+v", result, err, w.asked[target]["r"])
	}
	delete(w.asked, target) // as the proxies' controller does
	if _, err := w.r.Reconcile(t.Context(), key); err != nil || w.route != nil {
		t.Errorf("%v: it is still there", err)
	}
}

func TestARouteGoesThoughTheRightToItsProxiesIsGone(t *testing.T) {
	w := newProxyWorld(t)
	w.look()
	w.askError = interception.ErrNotGranted
	now := metav1.Now()
	w.route.SetDeletionTimestamp(&now)
	if _, err := w.r.Reconcile(t.Context(), key); err != nil || w.route != nil {
		t.Fatalf("%v: it is still there", err)
	}
	w.askError = nil
	if _, err := w.r.Reconcile(t.Context(), key); err != nil || !w.asked[target]["r"].Leaving {
		t.Errorf("%v: what it has left stays", err)
	}
}

func TestAnEarlierRouteOfTheNameAsksForNothing(t *testing.T) {
	w := newProxyWorld(t)
	old := &intercept.Intent{Route: intercept.RouteKey{Cluster: "c1", Namespace: "storefront", Name: "preview"}, UID: "old"}
	must(t, w.Ask(t.Context(), target, old))
	w.look()
	if !w.asked[target]["old"].Leaving || w.asked[target]["r"].Leaving {
		t.Errorf("%+v", w.asked[target])
	}
}

func TestARouteThatIsToldOfEarlyIsLookedAtLater(t *testing.T) {
	routes := &Routes{}
	routes.Changed(key)
	var woken []string
	routes.begin(func(k export.Key) { woken = append(woken, k.Name) }, func() {})
	routes.Changed(group)
	if !slices.Equal(woken, []string{"preview", "checkout"}) {
		t.Errorf("%v", woken)
	}
}

// The controllers may not have seen yet that a route asked a moment ago: its finalizer goes by the runtime cluster's own word.
func TestARouteDoesNotGoBeforeWhatItHasJustAsked(t *testing.T) {
	w := newProxyWorld(t)
	w.look()
	w.unseen = true
	now := metav1.Now()
	w.route.SetDeletionTimestamp(&now)
	if _, err := w.r.Reconcile(t.Context(), key); err != nil || w.route == nil || !w.asked[target]["r"].Leaving {
		t.Fatalf("%v: it is gone, or leaves %+v", err, w.asked[target]["r"])
	}
	delete(w.asked, target)
	if _, err := w.r.Reconcile(t.Context(), key); err != nil || w.route != nil {
		t.Errorf("%v: it is still there", err)
	}
}

// A Service in a namespace whose right is gone is left to the operator; those of others are left as always.
func TestOneServiceWithoutTheRightKeepsNoOtherOne(t *testing.T) {
	w := newProxyWorld(t)
	w.look()
	elsewhere := types.NamespacedName{Namespace: "elsewhere", Name: "frontend"}
	lost := w.asked[target]["r"].Left()
	must(t, w.Ask(t.Context(), elsewhere, lost))
	w.withdrawn = "elsewhere"
	now := metav1.Now()
	w.route.SetDeletionTimestamp(&now)
	if _, err := w.r.Reconcile(t.Context(), key); err != nil || !w.asked[target]["r"].Leaving {
		t.Fatalf("%v: %+v", err, w.asked[target]["r"])
	}
	delete(w.asked, target)
	if _, err := w.r.Reconcile(t.Context(), key); err != nil || w.route != nil {
		t.Errorf("%v: it waits for what nobody can change", err)
	}
}

// A Service may be one of the Baseline's no more, of which nothing tells but its labels.
func TestARouteIsLookedAtAgainForItsService(t *testing.T) {
	w := newProxyWorld(t)
	w.look()
	w.taken()
	result, err := w.r.Reconcile(t.Context(), key)
	if c := attachedOf(w.status()); err != nil || c.Status != metav1.ConditionTrue || result.RequeueAfter <= 0 || result.RequeueAfter > 10*time.Minute {
		t.Fatalf("it is looked at again after %s, %v: %+v", result.RequeueAfter, err, c)
	}
	w.place.Baseline.Spec.Services.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"public": "yes"}}
	if c := w.look(); c.Reason != sandbarv1alpha1.RouteNotAllowed || !w.asked[target]["r"].Leaving {
		t.Errorf("%+v: it still asks", c)
	}
}

// All routes are looked at every 10 minutes, and when a Baseline changes.
func TestALookAtARouteIsTwoRequestsOfTheRuntimeCluster(t *testing.T) {
	const routes = 200
	w := newProxyWorld(t)
	w.look()
	w.taken()
	w.look()
	w.lists, w.reads, w.writes = 0, 0, 0
	for range routes {
		w.look()
	}
	if w.lists > 0 || w.writes > 0 || w.reads != 2*routes { // the Service, and that of the copy
		t.Errorf("%d looks are %d lists, %d reads of Services and %d writes", routes, w.lists, w.reads, w.writes)
	}
}
