// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var web = types.NamespacedName{Namespace: "prod", Name: "web"}

// errKilled is what a write returns after which the process is dead.
var errKilled = errors.New("the process was killed")

// world is a runtime cluster: an API server that keeps versions, and the controllers that make pods of Deployments and endpoints of
// Services.
type world struct {
	*testing.T

	client.WithWatch

	clock time.Time
	image string
	// denies has the API server refuse Deployments.
	denies bool
	// refuses has the API server refuse a write, and unreadable a read; nil for none.
	refuses    func(obj client.Object, what string) error
	unreadable func(obj client.Object) error
	// then is what happens at once after a write; nil for nothing.
	then func(obj client.Object, what string)
	// imageError is why the image of the proxies is not known.
	imageError error
	// undoes has a webhook change each update of a Deployment to what it was.
	undoes bool
	// broken has no proxy become ready.
	broken bool
	// addresses is how many Services have been given one.
	addresses int
	// lingers has the pods of a Deployment outlive it.
	lingers bool
	// killAt is the write, counted from 1, after which the process ends; 0 for none.
	killAt int
	writes int
	// done are the writes, for messages, and ofService those of the live Service.
	done      []string
	ofService int
	counts    counts
	// known is what a reconciler knows of the provider; nil for nothing.
	known *watch
}

const serviceText = `
apiVersion: v1
kind: Service
metadata: {namespace: prod, name: web, labels: {team: shop}, annotations: {note: "<kept>"}}
spec: {clusterIP: 10.0.0.7, type: ClusterIP, selector: {app: web}, sessionAffinity: None, ports: [{name: http, port: 80, targetPort: http, protocol: TCP}]}
`

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, clock: time.Unix(1_000_000, 0), image: "proxy:1"}
	service := &corev1.Service{}
	must(t, yaml.Unmarshal([]byte(serviceText), service))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web-0", Labels: map[string]string{"app": "web"}}}
	config := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "prod", Name: name,
			Labels: map[string]string{placement.LabelManagedBy: placement.ManagedBy}, Annotations: map[string]string{placement.AnnotationProvider: "us"},
		}}
	}
	w.WithWatch = interceptor.NewClient(fake.NewClientBuilder().WithScheme(schemeOfFour(t)).
		WithObjects(service, pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sb-x"}}, config(intercept.RoutesConfigMap), config(wire.ConfigMap)).
		WithReturnManagedFields().WithIndex(&corev1.ConfigMap{}, metav1.ObjectNameField, func(obj client.Object) []string { return []string{obj.GetName()} }).
		Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if w.unreadable != nil {
				if err := w.unreadable(obj); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return w.write(obj, "create", func() error {
				if service, isService := obj.(*corev1.Service); isService && service.Spec.ClusterIP == "" {
					w.addresses++
					service.Spec.ClusterIP = fmt.Sprintf("10.0.1.%d", w.addresses)
				}
				return c.Create(ctx, obj, opts...)
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return w.write(obj, "update", func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return w.write(obj, "patch", func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return w.write(obj, "delete", func() error { return c.Delete(ctx, obj, opts...) })
		},
	})
	w.settle()
	w.forget()
	return w
}

// schemeOfFour has the kinds of a test alone: the fake client goes through all kinds of its scheme with each write.
func schemeOfFour(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), policyv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme)))
	return scheme
}

// forget has the writes so far count for nothing.
func (w *world) forget() { w.writes, w.ofService, w.done = 0, 0, nil }

func (w *world) write(obj client.Object, what string, do func() error) error {
	w.writes++
	if _, isDeployment := obj.(*appsv1.Deployment); isDeployment && w.denies {
		return apierrors.NewForbidden(appsv1.Resource("deployments"), obj.GetName(), errors.New("the policy says no"))
	}
	if w.refuses != nil {
		if err := w.refuses(obj, what); err != nil {
			return err
		}
	}
	if _, isDeployment := obj.(*appsv1.Deployment); isDeployment && w.undoes && what == "update" {
		return nil
	}
	err := do()
	if err == nil {
		w.done = append(w.done, fmt.Sprintf("%s %T %s", what, obj, obj.GetName()))
		if _, isService := obj.(*corev1.Service); isService && obj.GetName() == "web" {
			w.ofService++
		}
	}
	if w.then != nil && err == nil {
		w.then(obj, what)
	}
	if w.killAt == w.writes {
		return errKilled
	}
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plainly does what others on the cluster do.
func (w *world) plainly(do func()) {
	w.Helper()
	killAt, writes, done, of, refuses, unreadable, then := w.killAt, w.writes, w.done, w.ofService, w.refuses, w.unreadable, w.then
	w.killAt, w.refuses, w.unreadable, w.then = 0, nil, nil, nil
	do()
	w.killAt, w.writes, w.done, w.ofService, w.refuses, w.unreadable, w.then = killAt, writes, done, of, refuses, unreadable, then
}

// settle has the cluster's own controllers do what there is to do.
func (w *world) settle() {
	w.Helper()
	w.plainly(func() {
		w.settleDeployments()
		w.settleEndpoints()
	})
}

func (w *world) settleDeployments() {
	w.Helper()
	ctx := w.Context()
	deployments, pods := &appsv1.DeploymentList{}, &corev1.PodList{}
	must(w.T, w.List(ctx, deployments))
	owned := map[string]bool{}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		n := *d.Spec.Replicas
		for j := range n {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: fmt.Sprintf("%s-%d", d.Name, j), Labels: d.Spec.Template.Labels}}
			owned[pod.Name] = true
			if w.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}) != nil {
				must(w.T, w.Create(ctx, pod))
			}
		}
		ready := n
		if w.broken {
			ready = 0
		}
		status := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: ready}
		if d.Status.ReadyReplicas != status.ReadyReplicas || d.Status.Replicas != n {
			d.Status = status
			must(w.T, w.Status().Update(ctx, d))
		}
	}
	must(w.T, w.List(ctx, pods, client.HasLabels{intercept.LabelService}))
	for i := range pods.Items {
		if !owned[pods.Items[i].Name] && !w.lingers {
			must(w.T, w.Delete(ctx, &pods.Items[i]))
		}
	}
}

func (w *world) settleEndpoints() {
	w.Helper()
	ctx := w.Context()
	services := &corev1.ServiceList{}
	must(w.T, w.List(ctx, services))
	must(w.T, w.DeleteAllOf(ctx, &discoveryv1.EndpointSlice{}, client.InNamespace("prod")))
	for i := range services.Items {
		s := &services.Items[i]
		pods := &corev1.PodList{}
		must(w.T, w.List(ctx, pods, client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(s.Spec.Selector)}))
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}}}
		maps.Copy(slice.Labels, s.Labels)
		for j := range pods.Items {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{Name: pods.Items[j].Name}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
		}
		must(w.T, w.Create(ctx, slice))
	}
}

// look is one look of a process that has just begun.
func (w *world) look() (time.Duration, error) {
	r := &reconciler{cache: w, watch: w.known, reader: w, writer: w, image: func(context.Context) (string, error) { return w.image, w.imageError }, counts: &w.counts, now: func() time.Time { return w.clock }}
	result, err := r.Reconcile(w.Context(), reconcile.Request{NamespacedName: web})
	return result.RequeueAfter, err
}

// quiet has all done that there is to do within a time, and returns once nothing is.
func (w *world) quiet(within time.Duration) {
	w.Helper()
	for end := w.clock.Add(within); ; {
		w.settle()
		before := len(w.done)
		again, err := w.look()
		if err != nil && !errors.Is(err, errKilled) {
			w.Fatalf("%v; it did:\n%s", err, strings.Join(w.done, "\n"))
		}
		if err != nil || len(w.done) != before {
			if w.writes > 500 {
				w.Fatalf("it never ends:\n%s", strings.Join(w.done[len(w.done)-20:], "\n"))
			}
			continue
		}
		if again == 0 || w.clock.Add(again).After(end) {
			w.clock = end
			return
		}
		w.clock = w.clock.Add(again)
	}
}

// pass has a time pass in which looks may fail.
func (w *world) pass(within time.Duration) {
	w.Helper()
	for end := w.clock.Add(within); !w.clock.After(end); w.clock = w.clock.Add(time.Second) {
		w.settle()
		_, _ = w.look() // the queue asks again
	}
}

// ask has a route ask for proxies.
func (w *world) ask(uid string, created int64) *intercept.Intent {
	w.Helper()
	intent := &intercept.Intent{
		Route: intercept.RouteKey{Cluster: "c", Namespace: "shop", Name: "r-" + uid}, UID: types.UID(uid), Created: metav1.Unix(created, 0),
		Placement: "sb-x", Rules: []wire.Rule{{ID: "sbx-aaaaaaa" + uid, Header: "baggage", Backends: []wire.Backend{{Address: "checkout-web-svc.sb-x.svc:80", Weight: 1}}}},
	}
	w.plainly(func() { must(w.T, Store{Reader: w, Writer: w}.Ask(w.Context(), web, intent)) })
	return intent
}

func (w *world) leave(intent *intercept.Intent) {
	w.Helper()
	w.plainly(func() { must(w.T, Store{Reader: w, Writer: w}.Ask(w.Context(), web, intent.Left())) })
}

func (w *world) service() *corev1.Service {
	w.Helper()
	s := &corev1.Service{}
	must(w.T, w.Get(w.Context(), web, s))
	return s
}

// change has somebody change the live Service.
func (w *world) change(manager string, change func(s *corev1.Service)) {
	w.Helper()
	w.plainly(func() {
		s := w.service()
		change(s)
		must(w.T, w.Update(w.Context(), s, client.FieldOwner(manager)))
	})
}

func (w *world) routes() intercept.Routes {
	w.Helper()
	config := &corev1.ConfigMap{}
	must(w.T, w.Get(w.Context(), types.NamespacedName{Namespace: "prod", Name: intercept.RoutesConfigMap}, config))
	if all := intercept.ReadRoutes(config.Data)["web"]; all != nil {
		return *all
	}
	return intercept.Routes{}
}

func (w *world) document() string {
	w.Helper()
	config := &corev1.ConfigMap{}
	must(w.T, w.Get(w.Context(), types.NamespacedName{Namespace: "prod", Name: wire.ConfigMap}, config))
	return config.Data["web.json"]
}

// everything is all that there is, without what each write changes.
func (w *world) everything() string {
	w.Helper()
	var all []string
	for _, list := range []client.ObjectList{&corev1.ServiceList{}, &appsv1.DeploymentList{}, &policyv1.PodDisruptionBudgetList{}, &corev1.ConfigMapList{}, &corev1.PodList{}} {
		must(w.T, w.List(w.Context(), list))
		must(w.T, meta.EachListItem(list, func(obj runtime.Object) error {
			obj.(client.Object).SetManagedFields(nil)
			return nil
		}))
		text, err := yaml.Marshal(list)
		must(w.T, err)
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "resourceVersion:") && !strings.Contains(line, "generation:") && !strings.Contains(line, "observedGeneration:") {
				all = append(all, line)
			}
		}
	}
	return strings.Join(all, "")
}

func (w *world) wantReason(reason string) {
	w.Helper()
	if got := w.routes().State; got.Reason != reason {
		w.Errorf("it says %s (%s), want %s", got.Reason, got.Message, reason)
	}
}

func (w *world) podMeta() metav1.ObjectMeta { return objectMeta("web-0", "web") }

func objectMeta(name, app string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "prod", Name: name, Labels: map[string]string{"app": app}}
}
