// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

// newChoiceWorld is a world of a kind whose tenants choose a toolchain, of which the operator has two.
func newChoiceWorld(t *testing.T, chosen string) *world {
	t.Helper()
	w := newWorld(t)
	w.settings.Choice = &sandbarv1alpha1.ImageChoice{Field: "toolchain", Images: []string{"node", "python", "go"}}
	w.settings.Infrastructure.Images = map[string]string{"node": "n:1", "python": "p:1", "go": "", "runner": "r:1"}
	w.choose(chosen)
	return w
}

func (w *world) choose(chosen string) {
	w.inKCP.Object["spec"] = map[string]any{"toolchain": chosen}
}

func (w *world) chosen() string {
	w.t.Helper()
	chosen, _, _ := unstructured.NestedString(w.kroInstance().Object, "spec", "toolchain")
	return chosen
}

func TestAToolchainWithoutAnImageIsRefusedWithThoseThatThereAre(t *testing.T) {
	for _, chosen := range []string{"go", "runner", "registry.evil/image:1", ""} {
		w := newChoiceWorld(t, chosen)
		w.refused()
		said := w.composed()
		if !strings.HasPrefix(said, place.ReasonImageMissing+": spec.toolchain:") || !strings.Contains(said, "it has node, python.") {
			t.Errorf("%q: it says %q", chosen, said)
		}
		if slices.Contains(w.writes, "apply Thing") {
			t.Errorf("%q: the kro instance was made", chosen)
		}
	}
}

func TestAnInstanceGoesOnWhenTheOperatorAddsItsToolchain(t *testing.T) {
	w := newChoiceWorld(t, "go")
	w.refused()
	w.settings.Infrastructure.Images["go"] = "g:1"
	w.settle()
	if got := w.chosen(); got != "go" {
		t.Errorf("kro gets the toolchain %q", got)
	}
}

func TestARefusedToolchainLeavesTheFormerOneAndTheRestHolds(t *testing.T) {
	w := newChoiceWorld(t, "python")
	w.settle()
	w.choose("go")
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
	w.refused()
	suspended, _, _ := unstructured.NestedBool(w.kroInstance().Object, "spec", "suspended")
	if got := w.chosen(); got != "python" || !suspended {
		t.Errorf("kro gets the toolchain %q, suspended %v; want the former one, suspended", got, suspended)
	}
	if said := w.composed(); !strings.HasPrefix(said, place.ReasonImageMissing) {
		t.Errorf("it says %q", said)
	}
}

// A kind may have both: a choice that is refused is told although the pod is a good one.
func TestARefusedChoiceBesideAPodIsTold(t *testing.T) {
	w := newPodWorld(t)
	w.settings.Choice = &sandbarv1alpha1.ImageChoice{Field: "toolchain", Images: []string{"node", "go"}}
	w.settings.Infrastructure.Images = map[string]string{"node": "n:1"}
	spec := w.inKCP.Object["spec"].(map[string]any)
	spec["toolchain"] = "node"
	w.settle()
	spec["toolchain"] = "go"
	w.refused()
	if said := w.composed(); !strings.HasPrefix(said, place.ReasonImageMissing) {
		t.Errorf("it says %q", said)
	}
	if got := w.chosen(); got != "node" {
		t.Errorf("kro gets the toolchain %q, want the former one", got)
	}
}
