// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// countReads has the world count what is read from the API server of the runtime cluster.
func (w *world) countReads() *[]string {
	var reads []string
	w.liveRuntime = interceptor.NewClient(w.runtime.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads = append(reads, "get "+key.String())
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			reads = append(reads, "list")
			return c.List(ctx, list, opts...)
		},
	})
	return &reads
}

func valueOf(t *testing.T, counter prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := counter.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// A claim makes four requests until it is Ready, the tenant's own not counted: it reads the Sandbox, adopts a member,
// and writes the status; the finalizer follows. Each one more is milliseconds of every claim.
func TestTheRequestsOfAWarmStart(t *testing.T) {
	w := newWarmWorld(t, 2)
	reads := w.countReads()
	w.settings.Computed = scope.NewComputed()
	w.reads = 0
	w.mustReconcile()
	if w.reads != 1 {
		t.Errorf("kcp was asked for the Sandbox %d times", w.reads)
	}
	if !slices.Equal(w.patches, []string{"status"}) || !slices.Equal(w.writes, []string{"patch Namespace"}) {
		t.Errorf("in kcp %v was written, on the runtime cluster %v", w.patches, w.writes)
	}
	if len(*reads) > 0 {
		t.Errorf("the API server of the runtime cluster was asked: %v", *reads)
	}
}

// What was remembered of a member is what the watch shows, or nothing.
func TestAMemberThatHasChangedIsReadBeforeItsSandboxIsTold(t *testing.T) {
	for name, change := range map[string]func(w *world, instance *unstructured.Unstructured){
		"its kro instance says another thing": func(w *world, instance *unstructured.Unstructured) {
			instance.Object["status"].(map[string]any)["color"] = "blue"
			if err := w.runtime.Update(w.t.Context(), instance); err != nil {
				w.t.Fatal(err)
			}
		},
		"this process has not looked at it": func(w *world, _ *unstructured.Unstructured) {
			w.members = w.newMembers()
			w.configure(testSet)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWarmWorld(t, 1)
			reads := w.countReads()
			instance := fixture.Thing.NewObject()
			key := types.NamespacedName{Namespace: w.memberNames()[0], Name: "instance"}
			if err := w.runtime.Get(t.Context(), key, instance); err != nil {
				t.Fatal(err)
			}
			change(w, instance)
			w.mustReconcile()
			if want := []string{"get " + key.String()}; !slices.Equal(*reads, want) {
				t.Errorf("read were %v, want %v", *reads, want)
			}
			shown, _, _ := unstructured.NestedString(instance.Object, "status", "color")
			if told, _, _ := unstructured.NestedString(w.inKCP.Object, "status", "color"); told != shown {
				t.Errorf("the Sandbox says %q, its kro instance %q", told, shown)
			}
		})
	}
}

// The revision of a pod is computed once for each template and state of the settings, however many Sandboxes start.
func TestARevisionIsComputedOnce(t *testing.T) {
	w := newWarmWorld(t, 1)
	w.settings.Computed = scope.NewComputed()
	before := valueOf(t, podRevisionsTotal)
	revision := func() string {
		t.Helper()
		s, err := w.reconciler().scopeOf(t.Context(), testRequest, found{object: w.inKCP}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.reconciler().podFacts(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return got.Revision
	}
	first := revision()
	for range 1000 {
		if again := revision(); again != first {
			t.Fatalf("%s, and then %s", first, again)
		}
	}
	if n := valueOf(t, podRevisionsTotal) - before; n != 1 {
		t.Errorf("it was computed %v times", n)
	}

	w.templates["mine"] = ownTemplate("mine", "uid-again", "another") // another one under its name
	again := revision()
	if again == first {
		t.Error("a template that was made again has the revision of the former one")
	}
	w.settings.Infrastructure.Isolation.RuntimeClassName, w.settings.Computed = "gvisor", scope.NewComputed() // as configure does
	if revision() == again {
		t.Error("other settings have the revision of the former ones")
	}
	if n := valueOf(t, podRevisionsTotal) - before; n != 3 {
		t.Errorf("it was computed %v times, for three pods", n)
	}
}
