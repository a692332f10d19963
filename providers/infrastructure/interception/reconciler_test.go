// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

func TestProxiesComeAndGoAndLeaveNothing(t *testing.T) {
	w := newWorld(t)
	before := w.everything()
	a := w.ask("1", 10)
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteAttached)
	if s := w.service(); !intercept.IsIntercepted(s) || s.Annotations[intercept.AnnotationOriginal] != `{"app":"web"}` || w.ofService != 1 {
		t.Fatalf("after %d writes of the Service:\n%+v", w.ofService, s)
	}
	if order := strings.Join(w.done, "\n"); strings.Index(order, "sandbar-proxy\n") > strings.Index(order, "*v1.Service web\n") || strings.Index(order, "*v1.Deployment") > strings.Index(order, "*v1.Service web\n") {
		t.Errorf("the order is\n%s", order)
	}
	behind := &corev1.Service{}
	must(t, w.Get(t.Context(), types.NamespacedName{Namespace: "prod", Name: "web-sandbar-baseline"}, behind))
	if !maps.Equal(behind.Spec.Selector, map[string]string{"app": "web"}) {
		t.Errorf("behind the proxies are %v", behind.Spec.Selector)
	}
	w.forget()
	if w.quiet(time.Hour); w.writes > 0 {
		t.Fatalf("it is not quiet: %v", w.done)
	}
	b := w.ask("2", 20)
	w.quiet(time.Minute)
	if document := w.document(); !strings.Contains(document, "sbx-aaaaaaa1") || !strings.Contains(document, "sbx-aaaaaaa2") || w.ofService > 0 {
		t.Errorf("after %d writes of the Service: %s", w.ofService, document)
	}
	if applied := w.routes().State.Applied; applied["1"] != a.Hash() || applied["2"] != b.Hash() {
		t.Errorf("%v", applied)
	}
	w.leave(a)
	w.quiet(time.Minute)
	if document := w.document(); strings.Contains(document, "sbx-aaaaaaa1") || w.ofService > 0 || len(w.routes().Intents) != 1 {
		t.Errorf("one of two has left: %s", document)
	}
	w.leave(b)
	w.quiet(0)
	if intercept.HasTraces(w.service()) || w.ofService != 1 || len(w.routes().Intents) != 0 || !strings.Contains(w.document(), `"draining":true`) {
		t.Errorf("the last one has left, with %d writes of the Service: %s", w.ofService, w.document())
	}
	w.quiet(10 * time.Second)
	if err := w.Get(t.Context(), types.NamespacedName{Namespace: "prod", Name: "sandbar-proxy-web"}, &appsv1.Deployment{}); err != nil {
		t.Errorf("the proxies go while their clients do: %v", err)
	}
	w.quiet(time.Minute)
	if state := w.routes().State; state.Encode() != (&intercept.State{Detached: state.Detached, Detaches: 1}).Encode() {
		t.Errorf("%+v", state)
	}
	w.quiet(intercept.ForgetDetaches)
	if diff := cmp.Diff(before, w.everything()); diff != "" {
		t.Errorf("something is left (-before +after):\n%s", diff)
	}
}

// A process that ends with any of its writes leaves what the next one goes on from, to the same end.
func TestAProcessThatEndsAnywhereIsFollowedByOneThatGoesOn(t *testing.T) {
	run := func(killAt int) (attached, after string, writes int) {
		w := newWorld(t)
		w.killAt = killAt
		a := w.ask("1", 10)
		w.quiet(time.Minute)
		attached = w.everything()
		w.leave(a)
		w.quiet(2 * time.Minute)
		return attached, w.everything(), w.writes
	}
	attached, after, writes := run(0)
	if writes < 15 {
		t.Fatalf("%d writes", writes)
	}
	for killAt := 1; killAt <= writes; killAt++ {
		t.Run(strconv.Itoa(killAt), func(t *testing.T) {
			in, out, _ := run(killAt)
			if diff := cmp.Diff(attached, in); diff != "" {
				t.Errorf("attached (-without +with):\n%s", diff)
			}
			if diff := cmp.Diff(after, out); diff != "" {
				t.Errorf("in the end (-without +with):\n%s", diff)
			}
		})
	}
}

func TestAServiceWithoutAProxyThatIsReadyGetsItsOwnPods(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.quiet(time.Minute)
	w.broken = true
	w.forget()
	w.quiet(intercept.FailOpenAfter - time.Second)
	if !intercept.IsIntercepted(w.service()) {
		t.Error("it is given up too early")
	}
	w.quiet(2 * time.Second)
	w.wantReason(sandbarv1alpha1.RouteProxyNotReady)
	if intercept.HasTraces(w.service()) || w.ofService != 1 {
		t.Errorf("after %d writes: %+v", w.ofService, w.service())
	}
	w.quiet(intercept.RetryFirst)
	w.broken = false
	w.quiet(time.Second)
	w.wantReason(sandbarv1alpha1.RouteAttached)
	// Again, which waits longer.
	w.broken = true
	w.quiet(intercept.FailOpenAfter + time.Second)
	w.broken = false
	w.quiet(intercept.RetryFirst + time.Second)
	w.wantReason(sandbarv1alpha1.RouteProxyNotReady)
	w.quiet(intercept.RetryFirst)
	w.wantReason(sandbarv1alpha1.RouteAttached)
	w.quiet(intercept.ForgetAfter + time.Minute)
	if state := w.routes().State; state.Failures != 0 || state.RetryAfter != nil {
		t.Errorf("%+v", state)
	}
}

// Each try costs clients the time until the Service has its own pods again: after some the tries are an hour apart.
func TestProxiesThatFailAgainAndAgainAreLeftUntilTheyAreOthers(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.quiet(time.Minute)
	fail := func() {
		t.Helper()
		w.wantReason(sandbarv1alpha1.RouteAttached)
		w.broken = true
		w.quiet(intercept.FailOpenAfter + time.Second)
		w.wantReason(sandbarv1alpha1.RouteProxyNotReady)
		w.broken = false
	}
	for _, wait := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute} {
		fail()
		w.quiet(wait + time.Second)
	}
	fail()
	w.quiet(intercept.RetryLast - 10*time.Second)
	w.wantReason(sandbarv1alpha1.RouteProxyNotReady)
	w.quiet(15 * time.Second)
	fail()
	w.image = "proxy:2"
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteAttached)
	if state := w.routes().State; state.Failures != 0 {
		t.Errorf("others have failed %d times", state.Failures)
	}
}

func TestProxiesThatNeverBecomeReadyAreTold(t *testing.T) {
	w := newWorld(t)
	w.broken = true
	w.ask("1", 10)
	w.quiet(time.Second)
	w.wantReason(sandbarv1alpha1.RoutePending)
	w.quiet(intercept.PendingFor + time.Second)
	w.wantReason(sandbarv1alpha1.RouteProxyNotReady)
	if w.ofService != 0 {
		t.Error("the Service was touched")
	}
	w.forget()
	if w.quiet(time.Hour); w.writes > 0 {
		t.Errorf("it is not quiet: %v", w.done)
	}
}

func TestAServiceWithoutPodsIsNotSwitched(t *testing.T) {
	w := newWorld(t)
	w.plainly(func() {
		must(t, w.Delete(t.Context(), &corev1.Pod{ObjectMeta: w.podMeta()}))
	})
	w.ask("1", 10)
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RoutePending)
	if w.ofService != 0 {
		t.Error("the Service was touched")
	}
	w.plainly(func() {
		must(t, w.Create(t.Context(), &corev1.Pod{ObjectMeta: w.podMeta()}))
	})
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteAttached)
}

// Argo CD with self-heal, and kubectl apply, which merges.
func TestASelectorThatSomebodyElseChangesTwiceIsLeftAlone(t *testing.T) {
	for name, heal := range map[string]func(s *corev1.Service){
		"replaced": func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} },
		"replaced as a whole": func(s *corev1.Service) {
			s.Spec.Selector = map[string]string{"app": "web"}
			delete(s.Annotations, intercept.AnnotationOriginal)
		},
		"merged": func(s *corev1.Service) { s.Spec.Selector["app"] = "web" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.ask("1", 10)
			w.quiet(time.Minute)
			w.change("argocd-controller", heal)
			w.forget()
			w.quiet(time.Second)
			w.wantReason(sandbarv1alpha1.RouteAttached)
			if !intercept.IsIntercepted(w.service()) || w.ofService > 2 {
				t.Fatalf("it is written again with %d writes: %+v", w.ofService, w.service().Spec.Selector)
			}
			w.clock = w.clock.Add(intercept.ConflictWithin - time.Minute)
			w.change("argocd-controller", heal)
			w.quiet(time.Second)
			w.wantReason(sandbarv1alpha1.RouteOwnershipConflict)
			if got := w.routes().State.Message; !strings.Contains(got, "argocd-controller writes the selector of Service web") {
				t.Error(got)
			}
			if !maps.Equal(w.service().Spec.Selector, map[string]string{"app": "web"}) {
				t.Errorf("%v", w.service().Spec.Selector)
			}
			w.forget()
			if w.quiet(intercept.ConflictFor - 2*time.Minute); w.writes > 0 {
				t.Errorf("it is not left alone: %v", w.done)
			}
			w.leave(a)
			w.quiet(2 * time.Minute)
			if intercept.HasTraces(w.service()) || len(w.routes().Intents) > 0 {
				t.Errorf("something is left: %+v", w.service())
			}
		})
	}
}

func TestAChangeLongAfterAnotherOneIsWrittenOver(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.quiet(time.Minute)
	for range 3 {
		w.clock = w.clock.Add(intercept.ConflictWithin + time.Second)
		w.change("kubectl", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} })
		w.quiet(time.Second)
		w.wantReason(sandbarv1alpha1.RouteAttached)
	}
}

func TestANewSelectorOfTheOwnersIsTheOriginalOneFromThenOn(t *testing.T) {
	for name, change := range map[string]func(s *corev1.Service){
		"replaced": func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web2"} },
		"merged":   func(s *corev1.Service) { s.Spec.Selector["app"] = "web2" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.ask("1", 10)
			w.quiet(time.Minute)
			w.change("kubectl", change)
			w.quiet(time.Second)
			// Its pods are not there yet: meanwhile the Service is not without both.
			w.plainly(func() {
				must(t, w.Create(t.Context(), &corev1.Pod{ObjectMeta: objectMeta("web2-0", "web2")}))
			})
			w.quiet(time.Minute)
			w.wantReason(sandbarv1alpha1.RouteAttached)
			if got := w.service().Annotations[intercept.AnnotationOriginal]; got != `{"app":"web2"}` {
				t.Error(got)
			}
			w.leave(a)
			w.quiet(2 * time.Minute)
			if got := w.service().Spec.Selector; !maps.Equal(got, map[string]string{"app": "web2"}) {
				t.Error(got)
			}
		})
	}
}

func TestOtherPortsAreOtherProxiesBehindTheServicesOwnPods(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.quiet(time.Minute)
	w.change("kubectl", func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "admin", Port: 9000, TargetPort: intstr.FromInt32(9000), Protocol: corev1.ProtocolTCP})
	})
	w.forget()
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteAttached)
	order := strings.Join(w.done, "\n")
	if restored, updated := strings.Index(order, "patch *v1.Service web\n"), strings.Index(order, "update *v1.Deployment"); restored < 0 || updated < restored || w.ofService != 2 {
		t.Errorf("the order is\n%s", order)
	}
	if !strings.Contains(w.document(), `"listen":9000`) {
		t.Error(w.document())
	}
}

// A proxy reads its ports once: without other pods its requests would go where nobody listens.
func TestEachOtherPortIsOtherProxies(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *corev1.Service)
		says   string
	}{
		"another number":        {func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 }, `10.0.1.1:8080"`},
		"another protocol":      {func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = new("https") }, `"protocol":"TCP"`},
		"another name":          {func(s *corev1.Service) { s.Spec.Ports[0].Name = "tcp" }, `"name":"tcp"`},
		"the first one is gone": {func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[1:] }, `10.0.1.1:81"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.change("kubectl", func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "second", Port: 81, TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP})
			})
			w.ask("1", 10)
			w.quiet(time.Minute)
			proxies := func() map[string]string {
				d := &appsv1.Deployment{}
				must(t, w.Get(t.Context(), types.NamespacedName{Namespace: "prod", Name: "sandbar-proxy-web"}, d))
				return d.Spec.Template.Annotations
			}
			before := proxies()
			w.change("kubectl", c.change)
			w.forget()
			w.quiet(time.Minute)
			w.wantReason(sandbarv1alpha1.RouteAttached)
			order := strings.Join(w.done, "\n")
			if restored, updated := strings.Index(order, "patch *v1.Service web\n"), strings.Index(order, "update *v1.Deployment"); restored < 0 || updated < restored || w.ofService != 2 {
				t.Errorf("the order is\n%s", order)
			}
			if maps.Equal(before, proxies()) {
				t.Errorf("the pods stay: %v", before)
			}
			if !strings.Contains(w.document(), c.says) {
				t.Errorf("%s, want %s", w.document(), c.says)
			}
		})
	}
}

// The proxies need no DNS for the Service's own pods: its failure would be that of every request.
func TestTheProxiesKnowTheAddressOfTheServiceBehind(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.quiet(time.Minute)
	if !strings.Contains(w.document(), `"baseline":"10.0.1.1:80"`) {
		t.Error(w.document())
	}
	w.plainly(func() {
		must(t, w.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web-sandbar-baseline"}}))
	})
	w.forget()
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteAttached)
	order := strings.Join(w.done, "\n")
	if restored, made := strings.Index(order, "patch *v1.Service web\n"), strings.Index(order, "create *v1.Service web-sandbar-baseline"); restored < 0 || made < restored || w.ofService != 2 {
		t.Errorf("the order is\n%s", order)
	}
	if !strings.Contains(w.document(), `"baseline":"10.0.1.2:80"`) {
		t.Error(w.document())
	}
}

func TestWhatIsLeftOverGoes(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"no route asks any more":      func(w *world) { w.drop(intercept.RoutesConfigMap, true) },
		"the ConfigMap is gone":       func(w *world) { w.drop(intercept.RoutesConfigMap, false) },
		"the image is withdrawn":      func(w *world) { w.image = "" },
		"the Service became headless": func(w *world) { w.change("kubectl", func(s *corev1.Service) { s.Spec.ClusterIP = "None" }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask("1", 10)
			w.quiet(time.Minute)
			lose(w)
			w.quiet(2 * time.Minute)
			if intercept.HasTraces(w.service()) || !maps.Equal(w.service().Spec.Selector, map[string]string{"app": "web"}) {
				t.Errorf("%+v", w.service())
			}
			for _, text := range []string{"sandbar-proxy-web", "web-sandbar-baseline", "web.json"} {
				if strings.Contains(w.everything(), text) {
					t.Errorf("%s is left:\n%s", text, w.everything())
				}
			}
			w.forget()
			if w.quiet(time.Hour); w.writes > 0 {
				t.Errorf("it is not quiet: %v", w.done)
			}
		})
	}
}

func TestADeletedServiceLeavesNothing(t *testing.T) {
	w := newWorld(t)
	a := w.ask("1", 10)
	w.quiet(time.Minute)
	w.plainly(func() { must(t, w.Delete(t.Context(), w.service())) })
	w.lingers = true
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteResolveFailed)
	if !strings.Contains(w.everything(), "web-sandbar-baseline") {
		t.Error("the Service behind goes before the proxies have ended")
	}
	w.lingers = false
	w.quiet(intercept.LookAgain)
	if strings.Contains(w.everything(), "web-sandbar-baseline") {
		t.Error(w.everything())
	}
	w.leave(a)
	w.quiet(time.Second)
	if len(w.routes().Intents) > 0 || w.routes().State.Reason != "" {
		t.Errorf("%+v", w.routes())
	}
}

func TestANameThatSomebodyElseHasIsTold(t *testing.T) {
	w := newWorld(t)
	w.plainly(func() {
		theirs := w.service()
		theirs.Name, theirs.ResourceVersion = "web-sandbar-baseline", ""
		must(t, w.Create(t.Context(), theirs))
	})
	before := w.everything()
	a := w.ask("1", 10)
	w.quiet(time.Second)
	w.wantReason(sandbarv1alpha1.RouteOwnershipConflict)
	w.leave(a)
	w.quiet(2 * time.Minute)
	if diff := cmp.Diff(before, w.everything()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestAStoreHasWhatARouteAsked(t *testing.T) {
	w := newWorld(t)
	intent := w.ask("1", 10)
	w.ask("2", 20)
	w.quiet(time.Minute)
	key := export.Key{Cluster: "c", NamespacedName: types.NamespacedName{Namespace: "shop", Name: "r-1"}}
	all, err := Store{Reader: w, Writer: w}.Of(t.Context(), key)
	if err != nil || len(all) != 1 || all[0].Service != web || all[0].Intent.Hash() != intent.Hash() || all[0].State.Reason != sandbarv1alpha1.RouteAttached {
		t.Errorf("%v, %+v", err, all)
	}
	elsewhere := types.NamespacedName{Namespace: "other", Name: "web"}
	if err := (Store{Reader: w, Writer: w}).Ask(t.Context(), elsewhere, intent); err == nil || !strings.Contains(err.Error(), ErrNotGranted.Error()) {
		t.Error(err)
	}
}

// drop removes a ConfigMap, or what is in it.
func (w *world) drop(name string, contentsOnly bool) {
	w.Helper()
	w.plainly(func() {
		config := &corev1.ConfigMap{}
		must(w.T, w.Get(w.Context(), types.NamespacedName{Namespace: "prod", Name: name}, config))
		if !contentsOnly {
			must(w.T, w.Delete(w.Context(), config))
			return
		}
		config.Data = nil
		must(w.T, w.Update(w.Context(), config))
	})
}

// A workspace that is deleted takes its routes with it, and kcp denies all reads of it.
func TestARouteWhoseCopiesAreGoneAsksForNothing(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.quiet(time.Minute)
	w.plainly(func() {
		must(t, w.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sb-x"}}))
	})
	w.quiet(resync + 2*time.Minute)
	if intercept.HasTraces(w.service()) || len(w.routes().Intents) > 0 || strings.Contains(w.everything(), "web-sandbar-baseline") {
		t.Errorf("something is left:\n%s", w.everything())
	}
}

func TestWhatTheRuntimeClusterRefusesIsToldToTheOperator(t *testing.T) {
	w := newWorld(t)
	w.denies = true
	w.ask("1", 10)
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteProviderUnavailable)
	if state := w.routes().State; !strings.Contains(state.Detail, "the policy says no") || strings.Contains(state.Message, "policy") {
		t.Errorf("%+v", state)
	}
	w.forget()
	if w.quiet(time.Minute); len(w.done) > 0 {
		t.Errorf("it is not quiet: %v", w.done)
	}
	w.denies = false
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteAttached)
}
