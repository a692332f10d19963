// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// cheapSet is a set whose members ask for other resources than its template says, which Sandboxes keep.
func cheapSet() members.Set {
	set := testSet
	set.UID, set.Key.Name, set.Keep = "set-cheap", "cheap", true
	set.Change.Patch = `{"spec":{"containers":[{"name":"main","workingDir":"/patched","resources":{"requests":{"cpu":"100m"}}}]}}`
	return set
}

// container is what the Sandbox's kro instance says of its container.
func (w *world) container() map[string]any {
	w.t.Helper()
	owned := w.ownedNames()
	if len(owned) != 1 {
		w.t.Fatalf("it has %v", owned)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fixture.Thing.GVK.GroupVersion().WithKind("ThingList"))
	if err := w.runtime.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].GetNamespace() == owned[0] {
			containers, _, _ := unstructured.NestedSlice(list.Items[i].Object, "spec", "pod", "template", "spec", "containers")
			return containers[0].(map[string]any)
		}
	}
	w.t.Fatal("it has no kro instance")
	return nil
}

func TestASandboxThatTakesAPatchedMemberKeepsItsPatch(t *testing.T) {
	for _, revision := range []string{"", "r1"} {
		t.Run("with the revision "+revision, func(t *testing.T) {
			w := newWarmWorld(t, 0)
			w.settings.Revision = revision
			w.makeMember(cheapSet())
			w.mustReconcile()
			w.hasOne(t)
			if start := w.startedAs(); start.Type != sandbarv1alpha1.StartWarm || start.Set.Name != "cheap" {
				t.Fatalf("it started as %+v", start)
			}
			w.mustReconcile() // for its finalizer
			w.patches, w.writes = nil, nil
			w.mustReconcile()
			if len(w.writes)+len(w.patches) > 0 {
				t.Errorf("at rest: %v, %v", w.writes, w.patches)
			}
			for _, suspended := range []bool{true, false} {
				w.suspend(suspended)
				w.settle()
				if dir := w.container()["workingDir"]; dir != "/patched" {
					t.Errorf("suspended %v: its pod was replaced: %v", suspended, w.container())
				}
			}
			t.Run("until it says something else of its pod", func(t *testing.T) {
				source := fromOwn("mine")
				source["patch"] = map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "mine"}}}
				w.writeSource(source)
				w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
				w.settle()
				if dir, there := w.container()["workingDir"]; there {
					t.Errorf("it has the patch still: %v", dir)
				}
			})
		})
	}
}

// Unpatched ones go first, and the Sandbox is cold only when there are neither.
func TestAnUnpatchedMemberIsTakenBeforeAPatchedOne(t *testing.T) {
	w := newWarmWorld(t, 0)
	w.makeMember(cheapSet())
	w.makeMember(testSet)
	w.mustReconcile()
	if start := w.startedAs(); start.Set == nil || start.Set.Name != "warm" {
		t.Errorf("it started as %+v", start)
	}
}

func patchComputations(t *testing.T) float64 {
	t.Helper()
	var counted dto.Metric
	if err := patchComputationsTotal.Write(&counted); err != nil {
		t.Fatal(err)
	}
	return counted.GetCounter().GetValue()
}

func TestAPatchIsComputedOnceForItsTemplate(t *testing.T) {
	w := newWarmWorld(t, 0)
	before := patchComputations(t)
	for range 3 {
		w.makeMember(cheapSet())
	}
	if n := patchComputations(t) - before; n != 1 {
		t.Errorf("computed %v times for three members", n)
	}
	w.mustReconcile()
	w.settle()
	w.suspend(true)
	w.settle()
	if n := patchComputations(t) - before; n != 1 {
		t.Errorf("computed %v times when a Sandbox has taken one", n)
	}
	// Each claim asks for the revision of its pod, and each member that is taken has its set looked at.
	for range 1000 {
		s, err := w.reconciler().scopeOf(t.Context(), testRequest, found{object: w.inKCP}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.reconciler().podFacts(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		w.configure(cheapSet())
	}
	if n := patchComputations(t) - before; n != 1 {
		t.Errorf("computed %v times after 1,000 claims", n)
	}
	w.templates["mine"] = ownTemplate("mine", "uid-2", "of-another")
	w.configure(cheapSet())
	if n := patchComputations(t) - before; n != 2 {
		t.Errorf("computed %v times when the template is another", n)
	}
}

func TestAPatchThatChangesNothingIsNone(t *testing.T) {
	w := newWarmWorld(t, 0)
	for _, patch := range []string{`{}`, `{"spec":{"containers":[{"name":"main","image":"of-mine"}]}}`} {
		set := testSet
		set.Change.Patch = patch
		set = w.configure(set)
		if set.Differs != placement.Unpatched || set.Revision != set.TemplateRevision {
			t.Errorf("%s: %+v", patch, set.Made)
		}
	}
	set := cheapSet()
	set.Change.Patch = `{"spec":{"containers":[{"name":"main","workingDir":"/x"}]}}`
	if set = w.configure(set); set.Differs != placement.PatchedResourcesEqual || set.Revision == set.TemplateRevision {
		t.Errorf("%+v", set.Made)
	}
}

// Each refusal names the field of the set, what is wrong in it, and leaves the template as it is.
func TestAPatchIsRefusedWithItsField(t *testing.T) {
	for name, test := range map[string]struct{ patch, words string }{
		"an unknown field":     {`{"spec":{"continers":[]}}`, "continers"},
		"a misspelt field":     {`{"spec":{"containers":[{"name":"main","ImagePullPolicy":"Always"}]}}`, "ImagePullPolicy"},
		"a node affinity":      {`{"spec":{"affinity":{"nodeAffinity":{}}}}`, "spec.affinity"},
		"a path of the node":   {`{"spec":{"volumes":[{"name":"v","hostPath":{"path":"/"}}]}}`, "hostPath"},
		"too much":             {`{"metadata":{"annotations":{"a":"` + strings.Repeat("x", 65<<10) + `"}}}`, "65536 is the most"},
		"not a container left": {`{"spec":{"containers":[{"$patch":"delete","name":"main"}]}}`, "at least one container"},
		"all of it replaced":   {`{"spec":{"$patch":"replace"}}`, "at least one container"},
		"a name that is a map": {`{"spec":{"containers":[{"name":{}}]}}`, "spec.patch"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWarmWorld(t, 0)
			set := testSet
			set.Field, set.Change.Patch = "spec.templateRef", test.patch
			_, _, err := w.members.Revision(t.Context(), set)
			var refused *outcome.RefusalError
			if !errors.As(err, &refused) || refused.Reason != sandbarv1alpha1.SandboxSetPatchRefused ||
				!strings.HasPrefix(refused.Message, "correct spec.patch: ") || !strings.Contains(refused.Message, test.words) {
				t.Errorf("%v, want a word about %s", err, test.words)
			}
		})
	}
	t.Run("but what is wrong with the template is not the patch's fault", func(t *testing.T) {
		w := newWarmWorld(t, 0)
		delete(w.templates, "mine")
		_, _, err := w.members.Revision(t.Context(), cheapSet())
		var refused *outcome.RefusalError
		if !errors.As(err, &refused) || refused.Reason != outcome.ReasonTemplateRef {
			t.Errorf("%v", err)
		}
	})
}

func TestASandboxStaysInThePlacementClassOfItsSet(t *testing.T) {
	w := newWarmWorld(t, 0)
	w.settings.Revision = "r1"
	w.settings.Infrastructure.PlacementClasses = map[string]sandbarv1alpha1.PlacementClass{"spot": {NodeSelector: map[string]string{"pool": "spot"}}}
	set := testSet
	set.Change.PlacementClass = "spot"
	w.makeMember(set)
	w.mustReconcile()
	w.hasOne(t)
	selector := func() any {
		instance := fixture.Thing.NewObject()
		if err := w.runtime.Get(t.Context(), types.NamespacedName{Namespace: w.ownedNames()[0], Name: placement.BornInstance}, instance); err != nil {
			t.Fatal(err)
		}
		found, _, _ := unstructured.NestedStringMap(instance.Object, "spec", "pod", "template", "spec", "nodeSelector")
		return found["pool"]
	}
	w.settle()
	if got := selector(); got != "spot" {
		t.Errorf("it runs in %v", got)
	}
	t.Run("also when the operator takes the class away", func(t *testing.T) {
		w.settings.Infrastructure.PlacementClasses = nil
		w.suspend(true)
		w.settle()
		if got := selector(); got != "spot" {
			t.Errorf("it runs in %v", got)
		}
		if said := w.composed(); strings.HasPrefix(said, sandbarv1alpha1.PlacementClassUnknown) {
			t.Errorf("it says %q", said)
		}
	})
	t.Run("and the set says that there is none", func(t *testing.T) {
		_, _, err := w.members.Revision(t.Context(), set)
		var refused *outcome.RefusalError
		if !errors.As(err, &refused) || refused.Reason != sandbarv1alpha1.PlacementClassUnknown || !strings.HasPrefix(refused.Message, "spec.placementClass: there is no placement class") {
			t.Errorf("%v", err)
		}
	})
}
