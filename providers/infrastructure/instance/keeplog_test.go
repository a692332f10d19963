// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/keptlog"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
)

// loggingWorld has an instance with a pod that the kro instance's status names.
func loggingWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.settings.DataPlane.Components = map[string]sandbarv1alpha1.Component{"db": {Endpoints: map[string]sandbarv1alpha1.Endpoint{
		"log": {PodRef: "status.dbRef", PodSubresource: "log", Methods: []string{"GET"}},
	}}}
	w.settle()
	pod := fixture.PodOf("web-0", fixture.Running(0, true, 0))
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Env: []corev1.EnvVar{{Name: controlproof.PodUIDVariable}}, Ports: []corev1.ContainerPort{{Name: "control", ContainerPort: 7070}}}, {Name: "side"}}
	if err := w.runtime.Create(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	w.kroSays(map[string]any{"state": "ACTIVE", "dbRef": map[string]any{"name": "web-0", "namespace": w.id().Namespace()}})
	w.settle()
	w.log = "2026-11-22T10:00:01Z the last line\n"
	return w
}

func (w *world) setSuspended(suspended bool) {
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = suspended
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
}

func (w *world) keptLog() (*keptlog.Log, error) {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.runtime.Get(w.t.Context(), types.NamespacedName{Namespace: w.id().Namespace(), Name: placement.LogSecret}, secret); err != nil {
		return nil, err
	}
	if err := w.id().Locate().Check(secret); err != nil {
		w.t.Error(err)
	}
	return keptlog.Decode(secret.Data)
}

func TestASuspensionKeepsTheEndOfTheLog(t *testing.T) {
	w := loggingWorld(t)
	if kept, err := w.keptLog(); err == nil {
		t.Fatalf("before it is suspended there is %+v", kept)
	}
	w.setSuspended(true)
	w.settle()
	kept, err := w.keptLog()
	if err != nil {
		t.Fatal(err)
	}
	of := keptlog.Container{Pod: "web-0", Name: "app", Labels: map[string]string{"app": "web"}, Refs: []string{"status.dbRef"}, Ports: []string{"control"}, Runner: true, Text: []byte(w.log)}
	side := of
	side.Name, side.Ports, side.Runner = "side", nil, false
	if diff := cmp.Diff([]keptlog.Container{of, side}, kept.Containers); diff != "" {
		t.Errorf("(-want +kept)\n%s", diff)
	}
	// It is read once: while it is suspended there is no log to keep.
	read := w.readLogs
	w.log = "another\n"
	w.settle()
	if w.readLogs != read {
		t.Errorf("it was read %d times more", w.readLogs-read)
	}
}

// Half of a log would be taken for its end, and an empty one for a program that printed nothing.
func TestALogThatCannotBeReadIsNotTakenForAnEmptyOne(t *testing.T) {
	w := loggingWorld(t)
	w.logErrs = map[string]error{"side": context.DeadlineExceeded}
	w.setSuspended(true)
	w.settle()
	kept, err := w.keptLog()
	if err != nil || kept.Containers[0].Unread || !kept.Containers[1].Unread || len(kept.Containers[1].Text) > 0 {
		t.Fatalf("%v; kept is %+v", err, kept)
	}
	w.setSuspended(false)
	w.settle()
	w.log, w.logErrs = "newer\n", map[string]error{"app": context.DeadlineExceeded, "side": context.DeadlineExceeded}
	failed := logsNotKept(t)
	w.setSuspended(true)
	w.settle()
	again, err := w.keptLog()
	if diff := cmp.Diff(kept, again); err != nil || diff != "" {
		t.Errorf("what was kept before is gone: %v, (-before +after)\n%s", err, diff)
	}
	if now := logsNotKept(t); now != failed+1 {
		t.Errorf("it was counted %v times", now-failed)
	}
	if !lifecycle.Suspended(w.kroInstance()) {
		t.Error("it was not suspended")
	}
}

func logsNotKept(t *testing.T) float64 {
	t.Helper()
	var metric dto.Metric
	if err := logsKeptTotal.WithLabelValues(logNotKept).Write(&metric); err != nil {
		t.Fatal(err)
	}
	return metric.GetCounter().GetValue()
}

func TestALogThatCannotBeKeptStopsNoSuspension(t *testing.T) {
	w := loggingWorld(t)
	w.failWrites = func(_ string, obj runtime.Object) error {
		if obj.GetObjectKind().GroupVersionKind().Kind == "Secret" {
			return errors.New("exceeded quota")
		}
		return nil
	}
	w.setSuspended(true)
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if !lifecycle.Suspended(w.kroInstance()) {
		t.Error("it was not suspended")
	}
}

// Of a group of many components none is without a log because another one has many pods.
func TestOnePodOfEachComponentComesBeforeTheSecondOfAny(t *testing.T) {
	var pods []corev1.Pod
	add := func(component string, names ...string) {
		for _, name := range names {
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
			if component != "" {
				pod.Labels = map[string]string{placement.LabelComponent: component}
			}
			pods = append(pods, pod)
		}
	}
	add("api", "api-1", "api-2", "api-3")
	add("web", "web-1", "web-2")
	add("", "other-1", "other-2")
	add("worker", "worker-1", "worker-2", "worker-3")
	var got []string
	for _, c := range containersOf(pods, nil) {
		got = append(got, c.Pod)
	}
	want := []string{"api-1", "other-1", "other-2", "web-1", "worker-1", "api-2", "web-2", "worker-2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTheEndOfALogIsWholeLines(t *testing.T) {
	for name, test := range map[string]struct{ log, want string }{
		"all of it":    {"one\ntwo\n", "one\ntwo\n"},
		"its end":      {"one\ntwo\nthree\nfour\n", "four\n"},
		"one long one": {"0123456789abcdef", "6789abcdef"},
	} {
		end := lastBytes{most: 10}
		for i := range test.log { // however it comes
			_, _ = end.Write([]byte(test.log[i : i+1]))
		}
		if got := string(end.lines()); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
