// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestReadySaysWhatATenantGets(t *testing.T) {
	const accepted, published, exported = sandbarv1alpha1.TemplateGraphAccepted, sandbarv1alpha1.TemplateSchemaPublished, sandbarv1alpha1.TemplateExported
	cond := func(typ string, status metav1.ConditionStatus, generation int64, reason string) metav1.Condition {
		return metav1.Condition{Type: typ, Status: status, ObservedGeneration: generation, Reason: reason, Message: "why"}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		status     metav1.ConditionStatus
		reason     string
		generation int64
	}{
		"nothing is known yet": {nil, metav1.ConditionFalse, reasonPending, 2},
		"a first graph is refused": {
			[]metav1.Condition{cond(accepted, metav1.ConditionFalse, 2, reasonRefused)}, metav1.ConditionFalse, reasonRefused, 2,
		},
		"all is well": {
			[]metav1.Condition{cond(accepted, "True", 2, "x"), cond(published, "True", 2, "x"), cond(exported, "True", 2, "x")},
			metav1.ConditionTrue, reasonReady, 2,
		},
		"a change is refused and the generation before is served": {
			[]metav1.Condition{cond(accepted, "False", 2, reasonIncompatible), cond(published, "True", 1, "x"), cond(exported, "True", 1, "x")},
			metav1.ConditionTrue, reasonPrevious, 1,
		},
		"a change is on its way": {
			[]metav1.Condition{cond(accepted, "Unknown", 2, reasonWaitingForKro), cond(published, "True", 1, "x"), cond(exported, "True", 1, "x")},
			metav1.ConditionTrue, reasonPrevious, 1,
		},
		"the export is gone": {
			[]metav1.Condition{cond(accepted, "True", 2, "x"), cond(published, "True", 2, "x"), cond(exported, "False", 2, reasonExportMissing)},
			metav1.ConditionFalse, reasonExportMissing, 2,
		},
		"kro has lost a graph that was exported": {
			[]metav1.Condition{cond(accepted, "Unknown", 2, reasonWaitingForKro), cond(published, "True", 2, "x"), cond(exported, "True", 2, "x")},
			metav1.ConditionFalse, reasonWaitingForKro, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := &sandbarv1alpha1.Template{}
			tmpl.Generation, tmpl.Status.Conditions = 2, tc.conditions
			summarize(tmpl)
			got := meta.FindStatusCondition(tmpl.Status.Conditions, sandbarv1alpha1.TemplateReady)
			if got.Status != tc.status || got.Reason != tc.reason || got.ObservedGeneration != tc.generation {
				t.Errorf("Ready = %s %s of generation %d (%s), want %s %s of %d",
					got.Status, got.Reason, got.ObservedGeneration, got.Message, tc.status, tc.reason, tc.generation)
			}
		})
	}
}

// A graph cannot declare what Sandbar writes into a status.
func TestTheFieldsOfTheStandardStatusAreReserved(t *testing.T) {
	standard := slices.Sorted(maps.Keys(instanceStatusProperties()))
	reserved := slices.Clone(contract.ReservedStatusFields)
	reserved = slices.DeleteFunc(reserved, func(name string) bool { return name == "state" || name == contract.DevelopmentStatus })
	if diff := cmp.Diff(reserved, standard); diff != "" {
		t.Errorf("reserved, but for kro's and that of kinds with a development contract (-), and in the schema (+):\n%s", diff)
	}
}

func TestKroIsHeardForTheCurrentGenerationOnly(t *testing.T) {
	message := "kro's words"
	conditions := func(generation int64, statuses ...metav1.ConditionStatus) []krov1alpha1.Condition {
		types := []krov1alpha1.ConditionType{
			krov1alpha1.RGDConditionTypeGraphAccepted, krov1alpha1.RGDConditionTypeKindReady, krov1alpha1.RGDConditionTypeControllerReady,
		}
		var out []krov1alpha1.Condition
		for i, status := range statuses {
			out = append(out, krov1alpha1.Condition{Type: types[i], Status: status, Message: &message, ObservedGeneration: generation})
		}
		return out
	}
	for name, tc := range map[string]struct {
		conditions []krov1alpha1.Condition
		want       metav1.ConditionStatus
	}{
		"kro has not looked":                  {nil, metav1.ConditionUnknown},
		"kro accepted an older generation":    {conditions(2, "True", "True", "True"), metav1.ConditionUnknown},
		"kro refused an older generation":     {conditions(2, "False"), metav1.ConditionUnknown},
		"kro refuses":                         {conditions(3, "False", "True", "True"), metav1.ConditionFalse},
		"kro cannot serve the kind":           {conditions(3, "True", "False", "True"), metav1.ConditionFalse},
		"kro does not watch the kind yet":     {conditions(3, "True", "True", "Unknown"), metav1.ConditionUnknown},
		"kro accepts and serves and composes": {conditions(3, "True", "True", "True"), metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			rgd := &krov1alpha1.ResourceGraphDefinition{}
			rgd.Generation, rgd.Status.Conditions = 3, tc.conditions
			got, said := kroSays(rgd)
			if got != tc.want || (got == metav1.ConditionFalse && said != message) {
				t.Errorf("got %s %q, want %s", got, said, tc.want)
			}
		})
	}
}

func TestAStoredGraphDiffersWhenItSaysSomethingElse(t *testing.T) {
	const graph = `{"schema":{"kind":"A","apiVersion":"v1","group":"sandbar.dev","spec":{"a":"string"}},"resources":[{"id":"x","template":{"kind":"S"}}]}`
	desired := func(raw string) map[string]any {
		var g map[string]any
		if err := json.Unmarshal([]byte(raw), &g); err != nil {
			t.Fatal(err)
		}
		return g
	}
	for name, tc := range map[string]struct {
		stored, wanted string
		want           bool
	}{
		"the same":                         {graph, graph, false},
		"kro's defaults besides":           {strings.Replace(graph, `"kind":"A"`, `"kind":"A","scope":"Namespaced"`, 1), graph, false},
		"a field is gone from the stored":  {strings.Replace(graph, `"a":"string"`, ``, 1), graph, true},
		"a value was edited in the stored": {strings.Replace(graph, `"kind":"S"`, `"kind":"T"`, 1), graph, true},
		"a resource was added to it":       {strings.Replace(graph, `]}`, `,{"id":"y"}]}`, 1), graph, true},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := desiredGraph(placement.Names{}, "a", desired(tc.wanted))
			if err != nil {
				t.Fatal(err)
			}
			stored := &krov1alpha1.ResourceGraphDefinition{}
			stored.Annotations = want.GetAnnotations()
			if err := json.Unmarshal([]byte(tc.stored), &stored.Spec); err != nil {
				t.Fatal(err)
			}
			if got := differs(want, stored); got != tc.want {
				t.Errorf("differs = %v, want %v", got, tc.want)
			}
		})
	}
	t.Run("a field is gone from the Template", func(t *testing.T) {
		before, _ := desiredGraph(placement.Names{}, "a", desired(graph))
		after, _ := desiredGraph(placement.Names{}, "a", desired(strings.Replace(graph, `"a":"string"`, ``, 1)))
		stored := &krov1alpha1.ResourceGraphDefinition{}
		stored.Annotations = before.GetAnnotations()
		if err := json.Unmarshal([]byte(graph), &stored.Spec); err != nil {
			t.Fatal(err)
		}
		if !differs(after, stored) {
			t.Errorf("the graphs are taken for the same:\n%s", cmp.Diff(before.Object, after.Object))
		}
	})
}
