// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

// healed are the ways in which others write the selector back.
var healed = map[string]func(s *corev1.Service){
	"replaced":            func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} },
	"merged":              func(s *corev1.Service) { s.Spec.Selector["app"] = "web" },
	"replaced as a whole": replacedAsAWhole,
}

func replacedAsAWhole(s *corev1.Service) {
	s.Spec.Selector = map[string]string{"app": "web"}
	delete(s.Annotations, intercept.AnnotationOriginal)
}

// onSwitch does something at once after the Service is switched next.
func (w *world) onSwitch(do func()) {
	w.then = func(obj client.Object, _ string) {
		if s, isService := obj.(*corev1.Service); isService && s.Name == "web" && intercept.IsIntercepted(s) {
			w.then = nil
			do()
		}
	}
}

// refusesStateOnce has the next write of the state fail, as with a connection that is lost.
func (w *world) refusesStateOnce() {
	w.refuses = func(obj client.Object, _ string) error {
		if obj.GetName() != intercept.RoutesConfigMap {
			return nil
		}
		w.refuses = nil
		return errKilled
	}
}

// wantConflict has somebody have written the selector back twice: that is told, with the name, and the Service is theirs.
func (w *world) wantConflict() {
	w.Helper()
	w.quiet(time.Second)
	w.wantReason(sandbarv1alpha1.RouteOwnershipConflict)
	if got := w.routes().State.Message; !strings.Contains(got, "argocd-controller writes the selector of Service web") {
		w.Errorf("%s; it did:\n%s", got, strings.Join(w.done, "\n"))
	}
	if !maps.Equal(w.service().Spec.Selector, map[string]string{"app": "web"}) {
		w.Errorf("%v", w.service().Spec.Selector)
	}
	w.forget()
	if w.quiet(intercept.ConflictFor - 2*time.Minute); w.writes > 0 {
		w.Errorf("it is not left alone: %v", w.done)
	}
}

// A selector that is written back between the switch and the next look is one that was written back: found in the suite, where
// the second time was never told.
func TestASelectorThatIsWrittenBackAtOnceIsAConflict(t *testing.T) {
	for name, heal := range healed {
		for when, disturb := range map[string]func(w *world, heal func()){
			"before the state is written": func(w *world, heal func()) { w.onSwitch(heal) },
			"after a switch that was in conflict with another change": func(w *world, heal func()) {
				w.refuses = func(obj client.Object, what string) error {
					if s, isService := obj.(*corev1.Service); isService && what == "patch" && intercept.IsIntercepted(s) {
						w.refuses = nil
						w.change("kubectl", func(s *corev1.Service) { s.Labels["seen"] = "yes" })
						w.onSwitch(heal)
					}
					return nil
				}
			},
			"when the state could not be written": func(w *world, heal func()) {
				w.onSwitch(func() {
					w.refusesStateOnce()
					heal()
				})
			},
		} {
			// Of a switch that no state tells of the annotation tells alone.
			if name == "replaced as a whole" && when == "when the state could not be written" {
				continue
			}
			t.Run(name+" "+when, func(t *testing.T) {
				w := newWorld(t)
				w.ask("1", 10)
				w.quiet(time.Minute)
				w.change("argocd-controller", heal)
				disturb(w, func() { w.change("argocd-controller", heal) })
				w.wantConflict()
			})
		}
	}
}

// The first time of all counts too.
func TestASelectorThatIsWrittenBackBeforeTheFirstStateIsCounted(t *testing.T) {
	for name, heal := range healed {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.onSwitch(func() { w.change("argocd-controller", heal) })
			w.ask("1", 10)
			w.quiet(time.Second)
			w.wantReason(sandbarv1alpha1.RouteAttached)
			w.change("argocd-controller", heal)
			w.wantConflict()
		})
	}
}

// A process that ends at any write while somebody writes the selector back does not take its own work for that of somebody else.
func TestAProcessThatEndsCountsNoChangeTwice(t *testing.T) {
	for name, heal := range healed {
		for killAt := 1; killAt <= 8; killAt++ {
			w := newWorld(t)
			w.ask("1", 10)
			w.quiet(time.Minute)
			w.change("argocd-controller", heal)
			w.forget()
			w.killAt = killAt
			w.quiet(time.Minute)
			if state := w.routes().State; state.Reason != sandbarv1alpha1.RouteAttached || !intercept.IsIntercepted(w.service()) {
				t.Errorf("%s, ended at write %d: %+v", name, killAt, state)
			}
		}
	}
}
