// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/frozen"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
)

var (
	key    = export.Key{Cluster: "c1", NamespacedName: types.NamespacedName{Namespace: "storefront", Name: "try"}}
	group  = export.Key{Cluster: "c1", NamespacedName: types.NamespacedName{Namespace: "storefront", Name: "checkout"}}
	placed = placement.ID{Origin: "c1", UID: "g"}.Namespace()
)

// sessionText is a session that has its finalizer and its owner.
const sessionText = `
apiVersion: sandbar.dev/v1alpha1
kind: DevSession
metadata:
  namespace: storefront
  name: try
  uid: s
  generation: 2
  resourceVersion: "1"
  finalizers: [sandbar.dev/dev-session]
  ownerReferences: [{apiVersion: sandbar.dev/v1alpha1, kind: SandboxGroup, name: checkout, uid: g}]
spec: {sandboxRef: {name: checkout}, workload: web, targetPath: /app, storage: {size: 1Gi}}
`

// world is kcp and the runtime cluster of a test: one DevSession and its group. It does what the controller of the group, kro and
// Kubernetes do when settle is called.
type world struct {
	*testing.T

	session *unstructured.Unstructured // nil if it is gone
	work    *instance.GroupWork
	// unplaced is the error of reading the group.
	unplaced error
	// stored are the records that the placement has, and stale has the next write come too late.
	stored  map[string]devsession.Record
	stale   bool
	running []corev1.Pod
	// leads are the pods that the Service of the copy leads to.
	leads  []string
	quota  []corev1.ResourceQuota
	writes int
	events []string
	woken  []export.Key
	now    time.Time
	r      *reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), stored: map[string]devsession.Record{}}
	w.session = objectOf(t, sessionText)
	labels := map[string]string{placement.LabelInstanceUID: "g", placement.LabelComponent: "web"}
	made := &clone.Rendered{
		Deployment: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "checkout-web-sbx", Labels: labels}},
		Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "checkout-web-svc"}, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		}},
	}
	must(t, yaml.UnmarshalStrict([]byte(`{replicas: 1, template: {metadata: {labels: {sandbar.dev/component: web, sandbar.dev/instance-uid: g}}, spec: {
		containers: [{name: app, image: "ghcr.io/acme/shop:1", command: [node, server.js]}]}}}`), &made.Deployment.Spec))
	snapshot := &clone.Snapshot{Source: clone.Source{Group: "apps", Kind: "Deployment", Namespace: "prod", Name: "frontend"}, Template: *made.Deployment.Spec.Template.DeepCopy()}
	w.work = &instance.GroupWork{
		GVK: schema.GroupVersionKind{Group: "sandbar.dev", Version: "v1alpha1", Kind: "SandboxGroup"}, Copies: map[string]*clone.Rendered{"web": made},
		Made: map[types.UID]bool{}, RunnerImage: "runner:1", DataPlaneURL: "https://dp.example.com/",
		Kept: &frozen.Frozen{ID: "sbx-ab12cd34", Components: map[string]frozen.Component{"web": {Snapshot: snapshot}}},
	}
	w.work.Group = &metav1.ObjectMeta{Name: "checkout", UID: "g"}
	w.work.Baseline = &sandbarv1alpha1.Baseline{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	w.work.Components = []string{"web", "api"}
	w.work.ObjectMeta = func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: placed, Name: name} }
	w.running = []corev1.Pod{podOf("web-1", placement.LabelComponent, "web", true)}
	w.leads = []string{"web-1"}
	w.r = &reconciler{
		objects: w, groups: w, runtime: w, known: &known{}, events: w, now: func() time.Time { return w.now },
		wake: func(k export.Key) { w.woken = append(w.woken, k) },
	}
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

func podOf(name, label, value string, ready bool) corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: placed, Name: name, Labels: map[string]string{label: value}}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}}
	if label == placement.LabelSessionUID {
		pod.Labels[placement.LabelDevelops] = "web"
	}
	return pod
}

// set changes the session.
func (w *world) set(patch string) {
	w.Helper()
	raw, err := yaml.YAMLToJSON([]byte(patch))
	must(w.T, err)
	before, err := w.session.MarshalJSON()
	must(w.T, err)
	after, err := jsonpatch.MergePatch(before, raw)
	must(w.T, err)
	must(w.T, w.session.UnmarshalJSON(after))
}

// look looks at the session once, and returns after which time it is to be looked at again.
func (w *world) look() time.Duration {
	w.Helper()
	result, err := w.r.Reconcile(w.Context(), key)
	must(w.T, err)
	return result.RequeueAfter
}

// settle has the cluster become as the records say, and looks again, until nothing changes; time passes.
func (w *world) settle() {
	w.Helper()
	for range 60 {
		before := w.state()
		again := w.look()
		w.converge()
		w.now = w.now.Add(again)
		if again == 0 && before == w.state() {
			return
		}
	}
	w.Fatalf("it never settles: %v", w.stored)
}

// state is all that may change.
func (w *world) state() string {
	var pods []string
	for i := range w.running {
		pods = append(pods, w.running[i].Name)
	}
	return fmt.Sprint(w.writes, w.stored, w.leads, w.work.Made, pods)
}

// converge makes pods and endpoints what the record says.
func (w *world) converge() {
	record, ok := w.stored["web"]
	w.work.Made = map[types.UID]bool{}
	var pods []corev1.Pod
	if !ok || !record.Stage.StopsCopy() {
		pods = append(pods, podOf("web-1", placement.LabelComponent, "web", true))
	}
	if ok && record.Stage != devsession.Gone {
		w.work.Made[record.UID] = true
		pods = append(pods, podOf("try-1", placement.LabelSessionUID, string(record.UID), true))
	}
	w.running, w.leads = pods, []string{"web-1"}
	if ok && record.Stage.LeadsToSession() {
		w.leads = []string{"try-1"}
	}
}

func (w *world) status() *sandbarv1alpha1.DevSessionStatus {
	w.Helper()
	obj := &sandbarv1alpha1.DevSession{}
	must(w.T, runtime.DefaultUnstructuredConverter.FromUnstructured(w.session.Object, obj))
	return &obj.Status
}

func (w *world) condition(name string) metav1.Condition { return conditionOf(w.status(), name) }

func (w *world) Live(_ context.Context, k export.Key) (*unstructured.Unstructured, error) {
	if k != key || w.session == nil {
		return nil, apierrors.NewNotFound(Kind.GVR().GroupResource(), k.Name)
	}
	return w.session.DeepCopy(), nil
}

func (w *world) Patch(_ context.Context, _ export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	w.writes++
	if strings.Contains(string(data), `"status"`) != (len(subresources) == 1) {
		return nil, fmt.Errorf("a patch of %v: %s", subresources, data)
	}
	before, err := w.session.MarshalJSON()
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return nil, err
	}
	err = w.session.UnmarshalJSON(after)
	if w.session.GetDeletionTimestamp() != nil && len(w.session.GetFinalizers()) == 0 {
		w.session = nil
	}
	return w.session, err
}

func (w *world) Remove(_ context.Context, _ export.Key, read *unstructured.Unstructured) error {
	if read.GetUID() != w.session.GetUID() {
		return errors.New("another one is there")
	}
	now := metav1.NewTime(w.now)
	w.session.SetDeletionTimestamp(&now)
	return nil
}

func (w *world) Work(_ context.Context, k export.Key) (*instance.GroupWork, error) {
	if k != group {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "sandbar.dev", Resource: "sandboxgroups"}, k.Name)
	}
	if w.unplaced != nil {
		return nil, w.unplaced
	}
	work, kept := *w.work, *w.work.Kept
	kept.Sessions = maps.Clone(w.stored)
	work.Kept = &kept
	work.Write = func(_ context.Context, kept *frozen.Frozen) error {
		if w.stale {
			w.stale = false
			return frozen.ErrChanged
		}
		w.writes++
		w.stored = kept.Sessions
		return nil
	}
	return &work, nil
}

func (w *world) pods(context.Context, string) ([]corev1.Pod, error) {
	return slices.Clone(w.running), nil
}

func (w *world) endpoints(_ context.Context, _, service string) ([]string, int, error) {
	if service != "checkout-web-svc" {
		return nil, 0, fmt.Errorf("asked for the endpoints of %s", service)
	}
	return w.leads, len(w.leads), nil
}

func (w *world) quotas(context.Context, string) ([]corev1.ResourceQuota, error) { return w.quota, nil }

func (w *world) Write(_ context.Context, _ export.Key, event *corev1.Event, _ time.Time) {
	w.events = append(w.events, event.Type+" "+event.Reason)
}
