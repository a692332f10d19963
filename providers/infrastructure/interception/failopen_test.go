// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

// tooLarge is what the API server says to a ConfigMap that has no room.
func tooLarge(obj client.Object) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), obj.GetName(), nil)
}

// Nothing that is refused, or cannot be read, stands between a Service without a proxy that is ready and its own pods.
func TestAServiceGetsItsOwnPodsThoughAllElseIsRefused(t *testing.T) {
	unreadable := errors.New("it cannot be read")
	for name, refuse := range map[string]func(w *world){
		"nothing": func(*world) {},
		"the image of the proxies, by admission": func(w *world) {
			w.image, w.denies = "proxy:2", true
		},
		"the document, whose ConfigMap is gone": func(w *world) {
			w.drop(wire.ConfigMap, false)
			w.ask("2", 20)
		},
		"the state, for which there is not room": func(w *world) {
			w.refuses = func(obj client.Object, _ string) error {
				if obj.GetName() == intercept.RoutesConfigMap {
					return tooLarge(obj)
				}
				return nil
			}
		},
		"the Service behind, which is somebody else's": func(w *world) {
			w.plainly(func() {
				behind := &corev1.Service{}
				must(w.T, w.Get(w.Context(), types.NamespacedName{Namespace: "prod", Name: "web-sandbar-baseline"}, behind))
				behind.Labels = map[string]string{"team": "other"}
				must(w.T, w.Update(w.Context(), behind))
			})
		},
		"the image, which is not known": func(w *world) { w.imageError = unreadable },
		"a look at the copies": func(w *world) {
			w.unreadable = func(obj client.Object) error {
				if _, isNamespace := obj.(*corev1.Namespace); isNamespace {
					return unreadable
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask("1", 10)
			w.quiet(time.Minute)
			w.wantReason(sandbarv1alpha1.RouteAttached)
			refuse(w)
			w.pass(time.Minute)
			if !intercept.IsIntercepted(w.service()) && name != "the Service behind, which is somebody else's" {
				t.Errorf("it is given up while proxies are ready: %+v", w.service())
			}
			w.broken = true
			w.pass(intercept.FailOpenAfter + 2*time.Second)
			if s := w.service(); intercept.HasTraces(s) || !maps.Equal(s.Spec.Selector, map[string]string{"app": "web"}) {
				t.Errorf("it has not its own pods: %+v; it did:\n%s", s, strings.Join(w.done, "\n"))
			}
		})
	}
}

// A selector into which somebody has merged another one chooses no pod: it does not wait for its state.
func TestAMergedSelectorComesBackBeforeItsState(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.quiet(time.Minute)
	w.change("kubectl", func(s *corev1.Service) { s.Spec.Selector["app"] = "web" })
	w.refuses = func(obj client.Object, _ string) error {
		if obj.GetName() == intercept.RoutesConfigMap {
			return errors.New("the connection is lost")
		}
		return nil
	}
	_, _ = w.look()
	if s := w.service(); intercept.HasTraces(s) || !maps.Equal(s.Spec.Selector, map[string]string{"app": "web"}) {
		t.Errorf("%+v", s)
	}
}

func TestARefusalDoesNotHideThatRequestsAreLed(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.quiet(time.Minute)
	w.image, w.denies = "proxy:2", true
	b := w.ask("2", 20)
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteAttached)
	if state := w.routes().State; !strings.Contains(state.Detail, "the policy says no") || state.Applied["2"] != b.Hash() {
		t.Errorf("%+v", state)
	}
	w.leave(b)
	w.quiet(time.Minute)
	if len(w.routes().Intents) != 1 || strings.Contains(w.document(), "sbx-aaaaaaa2") {
		t.Errorf("a route cannot leave: %s", w.document())
	}
	w.denies = false
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteAttached)
	if state := w.routes().State; state.Detail != "" {
		t.Errorf("%+v", state)
	}
}

func TestRoutesLeaveRoomForTheStateOfServices(t *testing.T) {
	w := newWorld(t)
	intent := w.ask("1", 10)
	config := &corev1.ConfigMap{}
	must(t, w.Get(t.Context(), types.NamespacedName{Namespace: "prod", Name: intercept.RoutesConfigMap}, config))
	config.Data["other.x"] = strings.Repeat("x", intercept.MaxRoutesBytes-len("other.x")-len(intercept.IntentKey("web", "1"))-len(intent.Encode()))
	must(t, w.Update(t.Context(), config))
	more := *intent
	more.UID, more.Created = "2", metav1.Unix(20, 0)
	if err := (Store{Reader: w, Writer: w}).Ask(t.Context(), web, &more); !errors.Is(err, ErrFull) {
		t.Errorf("one that has no room: %v", err)
	}
	for name, same := range map[string]*intercept.Intent{"the same again": intent, "one that leaves": intent.Left()} {
		if err := (Store{Reader: w, Writer: w}).Ask(t.Context(), web, same); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A quota, a schema, a webhook that does not answer: each has another code, and each is told.
func TestEachRefusalIsTold(t *testing.T) {
	gr := corev1.Resource("x")
	for name, refusal := range map[string]error{
		"a policy":                       apierrors.NewForbidden(gr, "x", errors.New("because")),
		"a field":                        apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("X").GroupKind(), "because", nil),
		"a webhook":                      apierrors.NewBadRequest("because"),
		"a webhook that does not answer": apierrors.NewInternalError(errors.New("because")),
		"the size":                       apierrors.NewRequestEntityTooLargeError("because"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.refuses = func(obj client.Object, _ string) error {
				if _, isDeployment := obj.(*appsv1.Deployment); isDeployment {
					return refusal
				}
				return nil
			}
			w.ask("1", 10)
			if again, err := w.look(); err != nil || again != intercept.LookAgain {
				t.Errorf("it is looked at again in %s: %v", again, err)
			}
			w.wantReason(sandbarv1alpha1.RouteProviderUnavailable)
			if state := w.routes().State; !strings.Contains(state.Detail, "because") {
				t.Errorf("%+v", state)
			}
		})
	}
}

func TestAConfigMapThatIsGoneIsTold(t *testing.T) {
	w := newWorld(t)
	w.drop(wire.ConfigMap, false)
	w.ask("1", 10)
	w.quiet(time.Second)
	w.wantReason(sandbarv1alpha1.RouteProviderUnavailable)
	if state := w.routes().State; !strings.Contains(state.Detail, wire.ConfigMap) {
		t.Errorf("%+v", state)
	}
}

// A mutating webhook that has a Deployment otherwise would be written against for ever.
func TestAWriteThatIsUndoneIsToldAndNotRepeatedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.broken = true
	w.ask("1", 10)
	w.quiet(time.Second)
	w.image, w.undoes = "proxy:2", true
	w.forget()
	again, err := w.look()
	if err != nil || again < intercept.LookAgain || w.writes > 4 {
		t.Errorf("it is looked at again in %s, after %d writes: %v", again, w.writes, err)
	}
	w.wantReason(sandbarv1alpha1.RouteAttachFailed)
	if state := w.routes().State; !strings.Contains(state.Detail, "webhook") || strings.Contains(state.Message, "webhook") {
		t.Errorf("%+v", state)
	}
	w.undoes, w.broken = false, false
	w.quiet(time.Minute)
	w.wantReason(sandbarv1alpha1.RouteAttached)
}
