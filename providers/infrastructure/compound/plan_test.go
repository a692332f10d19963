// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/pkg/golden"
)

func TestTheGroupOfASandboxIsTheGolden(t *testing.T) {
	for name, suspended := range map[string]bool{"runs": false, "suspended": true} {
		got, err := yaml.Marshal(PlanCopies(sandbox(t), words(), suspended).Part)
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", name+".golden.yaml"), got)
	}
}

func TestWhatASandboxCannotHaveIsRefusedWithTheField(t *testing.T) {
	for name, row := range map[string]struct {
		change       func(obj map[string]any)
		reason, says string
	}{
		"nothing is wrong": {change: func(map[string]any) {}},
		"a time after which it sleeps": {
			func(spec map[string]any) { spec["lifecycle"] = map[string]any{"sleepAfterUnused": "30m"} },
			ReasonActivityNotVisible, "spec.lifecycle.sleepAfterUnused: requests to copies of workloads are not seen as use; remove it, and set shutdownTime",
		},
		"a time after which it goes": {
			func(spec map[string]any) { spec["lifecycle"] = map[string]any{"deleteAfterUnused": "24h"} },
			ReasonActivityNotVisible, "spec.lifecycle.deleteAfterUnused: ",
		},
		"names that are too long together": {
			func(spec map[string]any) {
				spec["workloads"].([]any)[1].(map[string]any)["name"] = strings.Repeat("a", 52)
			},
			ReasonInvalidSpec, `spec.workloads[1].name: "` + strings.Repeat("a", 52) + `" and the name "preview" of the Sandbox have 59 characters together, and 58 is the most`,
		},
		"a type that is not known": {
			func(spec map[string]any) { spec["workloads"].([]any)[0].(map[string]any)["type"] = "image" },
			ReasonInvalidSpec, "spec.workloads[0]: set type to inherit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := sandbox(t)
			row.change(obj.Object["spec"].(map[string]any))
			got := PlanCopies(obj, words(), false).Refused
			if got.OK || got.Reason != row.reason || !strings.HasPrefix(got.Message, row.says) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAGroupIsCorrectedInWhatIsItsSandboxsToSay(t *testing.T) {
	for name, row := range map[string]struct {
		group  func(group *unstructured.Unstructured)
		plan   func(obj *unstructured.Unstructured)
		refuse bool
		want   string // the patch without the version; empty for none
	}{
		"nothing differs": {},
		"others have added a label, an annotation, a finalizer and an owner": {group: func(group *unstructured.Unstructured) {
			group.SetLabels(map[string]string{"sandbar.dev/project": "shop", "sandbar.dev/visibility": "private", "theirs": "yes"})
			annotations := group.GetAnnotations()
			annotations["theirs"] = "yes"
			group.SetAnnotations(annotations)
			group.SetFinalizers(append(group.GetFinalizers(), "theirs"))
			group.SetOwnerReferences(append(group.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "theirs"}))
		}},
		"a field of the graph's own has its default": {group: set(true, "spec", "color")},
		"a component differs": {
			group: func(group *unstructured.Unstructured) {
				components := group.Object["spec"].(map[string]any)["components"].([]any)
				group.Object["spec"].(map[string]any)["components"] = components[:1]
			},
			want: `{"spec":{"components":[{"name":"frontend"},{"name":"api"}]}}`,
		},
		"it is suspended":                      {group: set(true, "spec", "suspended"), want: `{"spec":{"suspended":false}}`},
		"it does not say whether it suspended": {group: unset("spec", "suspended")},
		"it would end alone":                   {group: set(map[string]any{"shutdownTime": "2027-01-01T00:00:00Z"}, "spec", "lifecycle"), want: `{"spec":{"lifecycle":null}}`},
		"it is of another Baseline":            {group: set(map[string]any{"name": "other"}, "spec", "baselineRef"), want: `{"spec":{"baselineRef":{"name":"shop"}}}`},
		"the Sandbox names no Baseline any more": {
			plan: unset("spec", "baselineRef"), want: `{"spec":{"baselineRef":null}}`,
		},
		"the project has changed": {plan: set(map[string]any{"id": "cart"}, "spec", "projectRef"), want: `{"metadata":{"labels":{"sandbar.dev/project":"cart"}}}`},
		"the project has gone":    {plan: unset("spec", "projectRef"), want: `{"metadata":{"labels":{"sandbar.dev/project":null}}}`},
		"the name for people has": {plan: unset("spec", "displayName"), want: `{"metadata":{"annotations":{"sandbar.dev/display-name":null}}}`},
		"the Sandbox asks to have all frozen again": {
			plan: set("2026-11-28T17:00:00Z", "metadata", "annotations", "sandbar.dev/resnapshot"),
			want: `{"metadata":{"annotations":{"sandbar.dev/resnapshot":"2026-11-28T17:00:00Z"}}}`,
		},
		"somebody has asked for that of the group": {group: set("2026-11-28T17:00:00Z", "metadata", "annotations", "sandbar.dev/resnapshot")},
		"somebody has taken the owner reference away, and put in another": {
			group: func(group *unstructured.Unstructured) {
				group.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "theirs"}})
			},
			want: `{"metadata":{"ownerReferences":["theirs","11111111-2222"]}}`,
		},
		"somebody has made it an owner that controls nothing": {
			group: set([]any{map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "name": "preview", "uid": "11111111-2222"}}, "metadata", "ownerReferences"),
			want:  `{"metadata":{"ownerReferences":["11111111-2222"]}}`,
		},
		"a spec that is refused changes no component": {
			group: set(map[string]any{"name": "other"}, "spec", "baselineRef"), plan: set(map[string]any{"sleepAfterUnused": "1h"}, "spec", "lifecycle"), refuse: true,
		},
		"a spec that is refused still suspends": {
			group: set(true, "spec", "suspended"), plan: set(map[string]any{"sleepAfterUnused": "1h"}, "spec", "lifecycle"), refuse: true,
			want: `{"spec":{"suspended":false}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := sandbox(t)
			group := groupOf(t, obj, "phase: Ready")
			if row.group != nil {
				row.group(group)
			}
			if row.plan != nil {
				row.plan(obj)
			}
			plan := PlanCopies(obj, words(), false)
			if refused := plan.Refused.Reason != ""; refused != row.refuse {
				t.Fatalf("%+v", plan.Refused)
			}
			if got := short(t, Correction(group, plan)); got != row.want {
				t.Errorf("the patch is %s, want %s", got, row.want)
			}
		})
	}
}

// A list is replaced as a whole, and what somebody adds to it in between would be lost.
func TestACorrectionIsOfTheVersionThatWasRead(t *testing.T) {
	obj := sandbox(t)
	group := groupOf(t, obj, "phase: Ready")
	patch := Correction(group, PlanCopies(obj, words(), true))
	if got, _, _ := unstructured.NestedString(patch, "metadata", "resourceVersion"); got != "7" {
		t.Errorf("%v", patch)
	}
}

func TestAGroupIsOfTheSandboxThatControlsIt(t *testing.T) {
	controller := func(uid string) func(*unstructured.Unstructured) {
		return func(group *unstructured.Unstructured) {
			group.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "sandbar.dev/v1alpha1", Kind: "Sandbox", Name: "preview", UID: "theirs", Controller: new(true)}})
			if uid != "" {
				group.SetAnnotations(map[string]string{"sandbar.dev/compound-uid": uid})
			}
		}
	}
	for name, row := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"it is as it was made":                         {func(*unstructured.Unstructured) {}, true},
		"its annotation is gone":                       {unset("metadata", "annotations"), true},
		"its owner reference is gone":                  {unset("metadata", "ownerReferences"), true},
		"nothing says whose it is but its name":        {unset("metadata"), false},
		"another object controls it":                   {controller(""), false},
		"another one does, and the annotation is ours": {controller("11111111-2222"), false},
	} {
		obj := sandbox(t)
		group := groupOf(t, obj, "phase: Ready")
		if row.change(group); Owns(obj, group) != row.want {
			t.Errorf("%s: %v", name, !row.want)
		}
	}
}

func set(value any, path ...string) func(*unstructured.Unstructured) {
	return func(obj *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(obj.Object, value, path...); err != nil {
			panic(err)
		}
	}
}

func unset(path ...string) func(*unstructured.Unstructured) {
	return func(obj *unstructured.Unstructured) { unstructured.RemoveNestedField(obj.Object, path...) }
}

// short is a patch for people: without the version, with the names of components and the UIDs of owners alone.
func short(t *testing.T, patch map[string]any) string {
	t.Helper()
	if patch == nil {
		return ""
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]any
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatal(err)
	}
	meta := read["metadata"].(map[string]any)
	delete(meta, "resourceVersion")
	if refs, ok := meta["ownerReferences"].([]any); ok {
		for i := range refs {
			refs[i] = refs[i].(map[string]any)["uid"]
		}
	}
	if len(meta) == 0 {
		delete(read, "metadata")
	}
	spec, _ := read["spec"].(map[string]any)
	if components, ok := spec["components"].([]any); ok {
		for i := range components {
			components[i] = map[string]any{"name": components[i].(map[string]any)["name"]}
		}
	}
	raw, err = json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
