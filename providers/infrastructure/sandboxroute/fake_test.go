// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/route"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/follow"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/interception"
)

var (
	key    = export.Key{Cluster: "c1", NamespacedName: types.NamespacedName{Namespace: "storefront", Name: "preview"}}
	group  = export.Key{Cluster: "c1", NamespacedName: types.NamespacedName{Namespace: "storefront", Name: "checkout"}}
	placed = placement.ID{Origin: "c1", UID: "g"}.Namespace()
)

const sandboxID = "sbx-ab12cd34"

// routeText is a route that leads, once it has a finalizer.
const routeText = `
apiVersion: sandbar.dev/v1alpha1
kind: SandboxRoute
metadata: {namespace: storefront, name: preview, uid: r, generation: 3, resourceVersion: "1", finalizers: [sandbar.dev/route]}
spec:
  sandboxGroupRef: {name: checkout}
  provider: gateway
  selectorHeaderName: baggage
  gateway: {parentRefs: [{namespace: edge, name: public}], hostnames: [shop.example.com]}
  rules:
  - {name: web, backends: [{component: {name: web, port: http}}]}
`

// world is kcp and the runtime cluster of a test: one SandboxRoute, its group, and Gateways.
type world struct {
	*testing.T

	route *unstructured.Unstructured // nil if it is gone
	place *instance.GroupPlace
	// unplaced is the error of finding the copies.
	unplaced error
	services map[string]*corev1.Service
	gateways []string
	// listeners are those of each Gateway, and told are the routes of which somebody was told.
	listeners []route.Listener
	told      []export.Key
	there     map[types.NamespacedName]*unstructured.Unstructured
	foreign   []*seen
	known     follow.Knowledge
	// asked is what proxies are asked for, by Service and UID, and state the result. askError is that of asking.
	asked    map[types.NamespacedName]map[types.UID]*intercept.Intent
	state    intercept.State
	askError error
	// withdrawn is a namespace in which nothing may be asked.
	withdrawn string
	// unseen: what is asked for is not seen by the watch yet. lists is how often it was read live, and reads how often a Service was.
	unseen       bool
	lists, reads int
	// full: the quota of the placement has no room.
	full   bool
	events []string
	// applied is how often an HTTPRoute was written.
	applied int
	writes  int
	r       *reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, gateways: []string{"edge/public"}, there: map[types.NamespacedName]*unstructured.Unstructured{}, known: follow.Known}
	w.route = objectOf(t, routeText)
	b := &sandbarv1alpha1.Baseline{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	must(t, yaml.Unmarshal([]byte(`{gateway: {parentRefs: [{namespace: edge, name: public}], hostnames: ["*.example.com"]}}`), &b.Spec.Routing))
	w.place = &instance.GroupPlace{
		Group: &metav1.ObjectMeta{Name: "checkout"}, Baseline: b, SandboxID: sandboxID, Components: []string{"web", "api"},
		ObjectMeta: func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: placed, Name: name, Labels: map[string]string{placement.LabelInstanceUID: "g"}, Annotations: map[string]string{placement.AnnotationProvider: "p"}}
		},
	}
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Port: 9090}}}}
	w.services = map[string]*corev1.Service{placed + "/checkout-web-svc": service}
	w.asked = map[types.NamespacedName]map[types.UID]*intercept.Intent{}
	w.r = &reconciler{objects: w, groups: w, proxies: w, runtime: w, events: w, now: time.Now, changed: func(k export.Key) { w.told = append(w.told, k) }, others: func() ([]*seen, follow.Knowledge) {
		all := append([]*seen(nil), w.foreign...)
		for _, one := range w.there {
			all = append(all, keep(one))
		}
		return all, w.known
	}}
	t.Cleanup(func() { w.r.counts.drop(key) })
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	must(t, err)
	u := &unstructured.Unstructured{}
	must(t, u.UnmarshalJSON(raw))
	return u
}

// set changes the spec of the route.
func (w *world) set(patch string) {
	w.Helper()
	raw, err := yaml.YAMLToJSON([]byte(patch))
	must(w.T, err)
	before, err := w.route.MarshalJSON()
	must(w.T, err)
	after, err := jsonpatch.MergePatch(before, raw)
	must(w.T, err)
	must(w.T, w.route.UnmarshalJSON(after))
}

// look looks at the route and returns its condition.
func (w *world) look() metav1.Condition {
	w.Helper()
	_, err := w.r.Reconcile(w.Context(), key)
	must(w.T, err)
	return attachedOf(w.status())
}

func (w *world) status() *sandbarv1alpha1.SandboxRouteStatus {
	w.Helper()
	obj := &sandbarv1alpha1.SandboxRoute{}
	must(w.T, runtime.DefaultUnstructuredConverter.FromUnstructured(w.route.Object, obj))
	return &obj.Status
}

// says has the Gateway's controller say something of all HTTPRoutes of the route.
func (w *world) says(conditions string) {
	w.Helper()
	for _, one := range w.there {
		status := objectOf(w.T, `{apiVersion: a/v1, kind: A, status: {parents: [{controllerName: example.com/gateway, parentRef: {namespace: edge, name: public}, conditions: [`+conditions+`]}]}}`)
		one.Object["status"] = status.Object["status"]
	}
}

func (w *world) Live(_ context.Context, k export.Key) (*unstructured.Unstructured, error) {
	if k != key || w.route == nil {
		return nil, apierrors.NewNotFound(Kind.GVR().GroupResource(), k.Name)
	}
	return w.route.DeepCopy(), nil
}

func (w *world) Patch(_ context.Context, k export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	w.writes++
	if strings.Contains(string(data), `"status"`) != (len(subresources) == 1) {
		return nil, fmt.Errorf("a patch of %v: %s", subresources, data)
	}
	before, err := w.route.MarshalJSON()
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return nil, err
	}
	err = w.route.UnmarshalJSON(after)
	if w.route.GetDeletionTimestamp() != nil && len(w.route.GetFinalizers()) == 0 {
		w.route = nil
	}
	return w.route, err
}

func (w *world) Place(_ context.Context, k export.Key) (*instance.GroupPlace, error) {
	if k != group {
		return nil, apierrors.NewNotFound(Kind.GVR().GroupResource(), k.Name)
	}
	return w.place, w.unplaced
}

func (w *world) routesOf(_ context.Context, uid types.UID) (list []unstructured.Unstructured, err error) {
	for _, one := range w.there {
		if one.GetLabels()[placement.LabelRouteUID] == string(uid) {
			list = append(list, *one)
		}
	}
	return list, nil
}

func (w *world) apply(_ context.Context, wanted *unstructured.Unstructured, own bool) (*unstructured.Unstructured, error) {
	w.applied++
	is := w.there[nameOf(wanted)]
	if is != nil && !own {
		return nil, fmt.Errorf("HTTPRoute %s: %w", wanted.GetName(), errNotOurs)
	}
	if w.full {
		return nil, apierrors.NewForbidden(httpRoutes.GroupResource(), wanted.GetName(), errors.New("exceeded quota: sandbar, requested: count/httproutes.gateway.networking.k8s.io=1, used: 20, limited: 20"))
	}
	written := wanted.DeepCopy()
	written.SetUID("h")
	written.SetGeneration(1)
	written.SetCreationTimestamp(metav1.NewTime(time.Unix(2000, 0)))
	if is != nil {
		written.Object["status"] = is.Object["status"]
	}
	w.there[nameOf(wanted)] = written
	return written, nil
}

func (w *world) remove(_ context.Context, namespace, name string, uid types.UID) error {
	if is := w.there[types.NamespacedName{Namespace: namespace, Name: name}]; is == nil || is.GetUID() != uid {
		return errors.New("another one is there")
	}
	delete(w.there, types.NamespacedName{Namespace: namespace, Name: name})
	return nil
}

func (w *world) service(_ context.Context, namespace, name string) (*corev1.Service, error) {
	w.reads++
	return w.services[namespace+"/"+name], nil
}

func (w *world) gateway(_ context.Context, namespace, name string) (*gateway, error) {
	if slices.Contains(w.gateways, namespace+"/"+name) {
		return &gateway{namespace: namespace, name: name, listeners: w.listeners}, nil
	}
	return nil, nil
}

func (w *world) Write(_ context.Context, _ export.Key, event *corev1.Event, _ time.Time) {
	w.events = append(w.events, event.Type+" "+event.Reason)
}

func (w *world) Of(ctx context.Context, route export.Key) ([]interception.Asked, error) {
	if w.unseen {
		return nil, nil
	}
	w.lists--
	return w.OfLive(ctx, route)
}

func (w *world) OfLive(_ context.Context, route export.Key) (all []interception.Asked, err error) {
	w.lists++
	for service, intents := range w.asked {
		for _, intent := range intents {
			if intent.Route == (intercept.RouteKey{Cluster: route.Cluster, Namespace: route.Namespace, Name: route.Name}) {
				all = append(all, interception.Asked{Service: service, Intent: intent, State: w.state})
			}
		}
	}
	return all, nil
}

func (w *world) Ask(_ context.Context, service types.NamespacedName, intent *intercept.Intent) error {
	if w.askError != nil {
		return w.askError
	}
	if service.Namespace == w.withdrawn {
		return interception.ErrNotGranted
	}
	w.writes++
	if w.asked[service] == nil {
		w.asked[service] = map[types.UID]*intercept.Intent{}
	}
	w.asked[service][intent.UID] = intent
	return nil
}
