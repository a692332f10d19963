// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func keyIn(name string) export.Key {
	return export.Key{Cluster: "c", NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}}
}

// config changes the ConfigMap in which routes ask.
func (w *world) config(change func(c *corev1.ConfigMap)) {
	w.Helper()
	w.plainly(func() {
		c := &corev1.ConfigMap{}
		must(w.T, w.Get(w.Context(), types.NamespacedName{Namespace: "prod", Name: intercept.RoutesConfigMap}, c))
		change(c)
		must(w.T, w.Update(w.Context(), c))
	})
}

func TestTheRoutesOfAWorkspaceHaveAShareOfAConfigMap(t *testing.T) {
	w := newWorld(t)
	intent := w.ask("1", 10)
	ask := func(cluster, uid string) error {
		one := *intent
		one.UID, one.Route.Cluster, one.Created = types.UID(uid), cluster, metav1.Unix(20, 0)
		return Store{Reader: w, Writer: w}.Ask(t.Context(), web, &one)
	}
	w.config(func(c *corev1.ConfigMap) { // routes for other Services
		for i := range 6 {
			large := *intent
			large.UID, large.Placement = types.UID(fmt.Sprint("large-", i)), strings.Repeat("x", intercept.MaxIntentBytes)
			c.Data[intercept.IntentKey("api", large.UID)] = large.Encode()
		}
	})
	err := ask("c", "2")
	if !errors.Is(err, ErrShare) || errors.Is(err, ErrFull) || !strings.Contains(err.Error(), strconv.Itoa(intercept.MaxShareBytes)) {
		t.Errorf("a route more of the workspace: %v", err)
	}
	must(t, ask("other", "3"))
	must(t, ask("c", "1"))
	must(t, Store{Reader: w, Writer: w}.Ask(t.Context(), web, intent.Left()))
}

// A ConfigMap that grant has not made for this provider is not believed.
func TestOnlyConfigMapsThatWereGrantedAreBelieved(t *testing.T) {
	for name, change := range map[string]func(c *corev1.ConfigMap){
		"without the label":   func(c *corev1.ConfigMap) { c.Labels = nil },
		"of another provider": func(c *corev1.ConfigMap) { c.Annotations[placement.AnnotationProvider] = "them" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			intent := w.ask("1", 10)
			known := newWatch(nil)
			known.believe("us")
			store := Store{Reader: w, Writer: w, watch: known}
			if all, err := store.Of(t.Context(), keyIn("r-1")); err != nil || len(all) != 1 {
				t.Fatalf("%v: %v", err, all)
			}
			w.config(change)
			if all, err := store.Of(t.Context(), keyIn("r-1")); err != nil || len(all) != 0 {
				t.Errorf("%v: %v", err, all)
			}
			if err := store.Ask(t.Context(), web, intent); !errors.Is(err, ErrNotGranted) {
				t.Errorf("asked there: %v", err)
			}
		})
	}
}

// A reconciler takes nothing down that another provider has put up.
func TestTheProxiesOfAnotherProviderAreLeft(t *testing.T) {
	w := newWorld(t)
	w.ask("1", 10)
	w.quiet(time.Minute)
	w.config(func(c *corev1.ConfigMap) { c.Annotations[placement.AnnotationProvider] = "them" })
	w.known = newWatch(nil)
	w.known.believe("us")
	w.forget()
	w.quiet(time.Hour)
	if !intercept.IsIntercepted(w.service()) || w.writes > 0 {
		t.Errorf("%v", w.done)
	}
}

// Where nobody is believed to ask for proxies there are none: a mark that is gone must not have them stay.
func TestWithoutTheMarksOfAGrantServicesGetTheirOwnPods(t *testing.T) {
	for name, change := range map[string]func(c *corev1.ConfigMap){
		"without the label":      func(c *corev1.ConfigMap) { c.Labels = nil },
		"without the annotation": func(c *corev1.ConfigMap) { c.Annotations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.known = newWatch(nil)
			w.known.believe("us")
			w.ask("1", 10)
			w.quiet(time.Minute)
			w.wantReason(sandbarv1alpha1.RouteAttached)
			w.config(change)
			w.quiet(2 * time.Minute)
			if intercept.HasTraces(w.service()) || strings.Contains(w.everything(), "sandbar-proxy-web") {
				t.Errorf("the proxies stay:\n%s", w.everything())
			}
		})
	}
}

func TestWhereNothingMayBeReadTheRightIsWithdrawn(t *testing.T) {
	for name, is := range map[string]func(obj client.Object) bool{
		"the ConfigMap":  func(obj client.Object) bool { return obj.GetName() == "" },
		"the Service":    func(obj client.Object) bool { _, is := obj.(*corev1.Service); return is },
		"the Deployment": func(obj client.Object) bool { return strings.Contains(fmt.Sprintf("%T", obj), "Deployment") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask("1", 10)
			w.unreadable = func(obj client.Object) error {
				if is(obj) {
					return apierrors.NewForbidden(corev1.Resource("x"), "x", errors.New("the right is gone"))
				}
				return nil
			}
			w.forget()
			if again, err := w.look(); err != nil || again != 0 || w.writes > 0 {
				t.Errorf("%s, %v: %v", again, err, w.done)
			}
		})
	}
}

// A route that has left before what was read of it is seen to be gone does not come back.
func TestALeavingIntentThatIsGoneIsNotWrittenAgain(t *testing.T) {
	w := newWorld(t)
	a := w.ask("1", 10)
	w.leave(a)
	w.quiet(time.Minute)
	w.leave(a)
	if n := len(w.routes().Intents); n > 0 {
		t.Errorf("there are %d", n)
	}
}

// countingReader counts what is read live.
type countingReader struct {
	client.Reader

	requests int
}

func (c *countingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.requests++
	return c.Reader.Get(ctx, key, obj, opts...) //nolint:wrapcheck // it stands for what it wraps
}

func (c *countingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.requests++
	return c.Reader.List(ctx, list, opts...) //nolint:wrapcheck // it stands for what it wraps
}

// With 200 routes a look at all of them would be 400 lists of what each of them says.
func TestALookAtManyRoutesReadsNothingLive(t *testing.T) {
	const routes = 200
	w := newWorld(t)
	var entries []string
	for i := range routes {
		entries = append(entries, fmt.Sprintf(`web.u%d: '{"uid":"u%[1]d","route":{"cluster":"c","namespace":"shop","name":"r-%[1]d"}}'`, i))
	}
	text := strings.Replace(configText, `{web.a:`, `{`+strings.Join(entries, ", ")+", web.a:", 1)
	watched, _, told := beginWatch(t, text)
	await(t, told, []string{"prod/web", fmt.Sprint("route r-", routes-1)})
	awaitKnown(t, watched)
	reader := &countingReader{Reader: w}
	store := Store{Reader: reader, Writer: w, watch: watched}
	for i := range routes {
		all, err := store.Of(t.Context(), keyIn(fmt.Sprint("r-", i)))
		if err != nil || len(all) != 1 || all[0].Intent.UID != types.UID(fmt.Sprint("u", i)) || all[0].Service != web {
			t.Fatalf("%v: %v", err, all)
		}
	}
	if reader.requests > 0 {
		t.Errorf("a look at %d routes is %d requests", routes, reader.requests)
	}
	if _, err := store.OfLive(t.Context(), keyIn("r-1")); err != nil || reader.requests != 1 {
		t.Errorf("%v: the last word is %d requests", err, reader.requests)
	}
}
