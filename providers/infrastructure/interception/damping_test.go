// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

// ready has proxies be ready, or not, and a time pass of which each second is looked at.
func (w *world) ready(is bool, within time.Duration) {
	w.Helper()
	w.broken = !is
	for end := w.clock.Add(within); w.clock.Before(end); w.clock = w.clock.Add(time.Second) {
		w.settle()
		if _, err := w.look(); err != nil {
			w.Fatal(err)
		}
	}
}

func TestProxiesThatAreReadyForAMomentAreNotReady(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.quiet(time.Minute)
	w.forget()
	begun, changes, states := w.clock, 0, 0
	w.then = func(obj client.Object, _ string) {
		if obj.GetName() == intercept.RoutesConfigMap {
			states++
		}
	}
	for w.ofService == 0 && w.clock.Sub(begun) < 5*time.Minute {
		w.ready(false, 5*time.Second)
		w.ready(true, 5*time.Second)
		changes += 2
	}
	if took := w.clock.Sub(begun); took > time.Minute {
		t.Errorf("the Service gets its own pods after %s", took)
	}
	if states > changes {
		t.Errorf("%d changes are %d writes of the state", changes, states)
	}
}

func TestTimesWithoutAProxyAddUpUntilThereHasBeenOneForLong(t *testing.T) {
	for name, c := range map[string]struct {
		ready time.Duration
		opens bool
	}{
		"a moment":   {time.Second, true},
		"not enough": {intercept.ReadyFor - 2*time.Second, true},
		"enough":     {intercept.ReadyFor + 2*time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask("1", 10)
			w.quiet(time.Minute)
			w.forget()
			w.ready(false, 6*time.Second)
			w.ready(true, c.ready)
			w.ready(false, 3*time.Second)
			if w.ofService > 0 {
				t.Errorf("what was ready counts for what was not: %+v", w.routes().State)
			}
			w.ready(false, 4*time.Second)
			if opened := w.ofService > 0; opened != c.opens {
				t.Errorf("the Service has its own pods: %t, want %t; %+v", opened, c.opens, w.routes().State)
			}
		})
	}
}

// A tenant that deletes its route and makes it again all the time has the requests of everybody change sides ever less.
func TestProxiesThatComeAndGoComeLessOften(t *testing.T) {
	w := newWorld(t)
	cycle := func() {
		t.Helper()
		w.wantReason(sandbarv1alpha1.RouteAttached)
		w.leave(w.ask("1", 10))
		w.quiet(time.Second)
		if intercept.HasTraces(w.service()) || len(w.routes().Intents) > 0 {
			t.Fatalf("the Service waits for its own pods: %+v", w.service())
		}
		w.ask("1", 10)
		w.quiet(time.Second)
	}
	w.ask("1", 10)
	w.quiet(time.Minute)
	cycle() // the first time is free
	for _, minutes := range []int{1, 2, 4, 8, 16, 32, 60} {
		wait := time.Duration(minutes) * time.Minute
		cycle()
		w.wantReason(sandbarv1alpha1.RoutePending)
		until := w.routes().State.Detached.Add(wait)
		if got := w.routes().State.Message; !strings.Contains(got, until.UTC().Format(time.RFC3339)) {
			t.Errorf("it says %s, want %s", got, until.UTC())
		}
		w.forget()
		w.quiet(until.Sub(w.clock) - time.Second)
		if w.ofService > 0 || w.writes > 6 { // what the former proxies had goes meanwhile, or stays
			t.Errorf("after %s: %v", wait, w.done)
		}
		w.quiet(time.Minute)
		w.wantReason(sandbarv1alpha1.RouteAttached)
	}
	w.quiet(intercept.ForgetDetaches)
	cycle()
	w.wantReason(sandbarv1alpha1.RouteAttached)
}

// How often proxies have gone outlives their routes, and nothing else does.
func TestHowOftenProxiesHaveGoneOutlivesTheRoutes(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		a := w.ask("1", 10)
		w.quiet(time.Minute)
		w.leave(a)
		w.quiet(5 * time.Minute)
	}
	if err := w.Get(t.Context(), types.NamespacedName{Namespace: "prod", Name: "sandbar-proxy-web"}, &appsv1.Deployment{}); err == nil {
		t.Error("the proxies are left")
	}
	w.ask("1", 10)
	w.quiet(time.Second)
	if s := w.routes().State; s.Detaches != 2 || s.Reason == "" {
		t.Errorf("%+v", s)
	}
	w.leave(w.ask("1", 10))
	w.quiet(2 * intercept.ForgetDetaches)
	config := &corev1.ConfigMap{}
	must(t, w.Get(t.Context(), types.NamespacedName{Namespace: "prod", Name: intercept.RoutesConfigMap}, config))
	if len(config.Data) > 0 {
		t.Errorf("%v", config.Data)
	}
}

// Proxies that wait for an hour do not wait for a workspace that was deleted meanwhile.
func TestARouteWhoseCopiesAreGoneIsFoundWhileItWaits(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.config(func(c *corev1.ConfigMap) {
		state := intercept.State{Detached: new(metav1.NewTime(w.clock)), Detaches: 20}
		c.Data[intercept.StateKey("web")] = state.Encode()
	})
	w.quiet(time.Second)
	w.wantReason(sandbarv1alpha1.RoutePending)
	if again, err := w.look(); err != nil || again <= 0 || again > resync {
		t.Errorf("it is looked at again after %s: %v", again, err)
	}
	w.plainly(func() {
		must(t, w.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sb-x"}}))
	})
	w.quiet(resync + time.Minute)
	if n := len(w.routes().Intents); n > 0 {
		t.Errorf("there are %d that ask", n)
	}
}

// A Service whose proxies have failed is not tried at once because its route is made again.
func TestARouteThatIsMadeAgainDoesNotHaveFailedProxiesForgotten(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		a := w.ask("1", 10)
		w.quiet(time.Minute)
		w.wantReason(sandbarv1alpha1.RouteAttached)
		w.broken = true
		w.quiet(intercept.FailOpenAfter + time.Second)
		w.wantReason(sandbarv1alpha1.RouteProxyNotReady)
		w.leave(a)
		w.quiet(time.Second)
		w.broken = false
	}
	w.ask("1", 10)
	w.quiet(10 * time.Second)
	w.wantReason(sandbarv1alpha1.RoutePending)
}
