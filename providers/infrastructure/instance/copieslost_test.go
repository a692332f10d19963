// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// losesSnapshots has somebody delete what the placement keeps of its workloads.
func (w *world) losesSnapshots() {
	w.t.Helper()
	w.deleted(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.id().Namespace(), Name: placement.SnapshotsConfigMap}}, false)
}

func (w *world) sandboxID() any { return w.inKCP.Object["status"].(map[string]any)["sandboxID"] }

// wantSnapshotsLost checks how often the loss has been told.
func (w *world) wantSnapshotsLost(times int) {
	w.t.Helper()
	if got, want := w.losses(), slices.Repeat([]string{"Warning " + outcome.ReasonSnapshotsLost}, times); !slices.Equal(got, want) {
		w.t.Errorf("told %v, want %v", got, want)
	}
}

// The copies change to another version then, and everybody is told before they do.
func TestSnapshotsThatAreDeletedAreToldBeforeTheWorkloadsAreFrozenAgain(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	id, counted := w.sandboxID(), countedLosses(t, outcome.ReasonSnapshotsLost)
	w.changeSource("frontend", "ghcr.io/acme/shop:2")
	w.losesSnapshots()
	w.step(t)
	w.wantSnapshotsLost(1)
	if len(w.writes) != 0 {
		t.Errorf("made again before it was told: %v", w.writes)
	}
	for _, name := range []string{"Ready", "Composed", "Lost"} {
		if got := fixture.ConditionOf(t, w.inKCP, name); !strings.Contains(got.Message, "copies may change to another version") {
			t.Errorf("%s says %s: %s", name, got.Reason, got.Message)
		}
	}
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:2")
	if got := w.sandboxID(); got != id {
		t.Errorf("requests are routed by %v, which was %v", got, id)
	}
	w.losesSnapshots()
	w.settle()
	w.wantSnapshotsLost(2)
	if got := countedLosses(t, outcome.ReasonSnapshotsLost) - counted; got != 2 {
		t.Errorf("counted %v times", got)
	}
}

func TestALossOfSnapshotsIsToldOnceThoughNothingCanBeFrozen(t *testing.T) {
	for name, happens := range map[string]func(*world){
		"the workload is gone": func(w *world) {
			w.deleted(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-shop", Name: "frontend"}}, false)
		},
		"the Baseline is withdrawn after it": func(w *world) {
			w.step(w.t)
			w.settings.Clones.Baselines = nil
			w.settle()
			w.step(w.t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCopiesWorld(t)
			w.settle()
			id := w.sandboxID()
			w.losesSnapshots()
			happens(w)
			w.settle()
			w.settle()
			w.wantSnapshotsLost(1)
			w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
			if got := w.sandboxID(); got != id {
				t.Errorf("the ID was %v and is %v", id, got)
			}
		})
	}
}

// Of workloads that were small when they were frozen first.
func TestALossOfSnapshotsIsToldOnceThoughThoseOfNowDoNotFit(t *testing.T) {
	w := newCopiesWorld(t)
	names, components, want := []string{"a", "b", "c", "d", "e", "f"}, []string{}, []string{}
	for _, name := range names {
		if err := w.runtime.Create(t.Context(), deploymentOf(t, name, `{containers: [{name: app, image: "ghcr.io/acme/shop:1", ports: [{containerPort: 8080}]}]}`)); err != nil {
			t.Fatal(err)
		}
		components, want = append(components, componentOf(name, name, "")), append(want, "web-"+name+"-sbx 2 ghcr.io/acme/shop:1")
	}
	w.copiesOf(components...)
	w.settle()
	w.wantCopies(want...)
	w.losesSnapshots()
	for _, name := range names {
		random := make([]byte, 180<<10) // as hexadecimal digits it compresses to about its own size
		if _, err := rand.Read(random); err != nil {
			t.Fatal(err)
		}
		d := &appsv1.Deployment{}
		if err := w.runtime.Get(t.Context(), client.ObjectKey{Namespace: "prod-shop", Name: name}, d); err != nil {
			t.Fatal(err)
		}
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TEXT", Value: hex.EncodeToString(random)}}
		mustUpdate(t, w.runtime, d)
	}
	w.settle()
	w.settle()
	w.wantSnapshotsLost(1)
	w.wantCopies(want...)
	if got := w.composed(); !strings.HasPrefix(got, "SpecRefused: the frozen pod templates and labels of all components have") {
		t.Errorf("Composed is %s", got)
	}
}

// What went with the namespace is told as its loss, and requests are routed by the ID that the tenant knows.
func TestAPlacementThatWasLostComesBackWithItsID(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	id := w.sandboxID()
	w.losesSnapshots()
	w.deletedNamespace(false)
	w.settle()
	w.settle()
	if got := w.losses(); !slices.Equal(got, []string{"Warning " + outcome.ReasonPlacementLost}) {
		t.Errorf("told %v", got)
	}
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	if got := w.sandboxID(); got != id {
		t.Errorf("the ID was %v and is %v", id, got)
	}
}
