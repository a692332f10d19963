// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

func TestANamespaceSaysHowItsTenantDescribesIt(t *testing.T) {
	for name, test := range map[string]struct {
		spec                map[string]any
		labels, annotations map[string]string
	}{
		"everything": {
			spec: map[string]any{
				"projectRef": map[string]any{"id": "shop"}, "visibility": "project", "displayName": "Ann's notes",
				"owner": map[string]any{"type": "group", "id": "web", "displayName": "The web team"},
				"tags":  map[string]any{"ticket": "ENG-421", "team": "checkout", "demo": ""},
			},
			labels: map[string]string{
				placement.LabelProject: "shop", placement.LabelVisibility: "project",
			},
			annotations: map[string]string{
				placement.AnnotationDisplayName: "Ann's notes", placement.AnnotationOwner: "group:web",
				placement.AnnotationTags: "demo,team=checkout,ticket=ENG-421",
			},
		},
		"an owner of the default type": {
			spec:        map[string]any{"owner": map[string]any{"id": "user_123"}},
			annotations: map[string]string{placement.AnnotationOwner: "user:user_123"},
		},
		"texts and a list, as kinds of operators have them": {
			spec: map[string]any{"projectRef": "shop", "visibility": "project", "displayName": "Ann's notes", "owner": "ann", "tags": []any{"a", "b"}},
			labels: map[string]string{
				placement.LabelProject: "shop", placement.LabelVisibility: "project",
			},
			annotations: map[string]string{
				placement.AnnotationDisplayName: "Ann's notes", placement.AnnotationOwner: "ann", placement.AnnotationTags: "a,b",
			},
		},
		"nothing":                        {spec: map[string]any{}},
		"empty words":                    {spec: map[string]any{"projectRef": "", "displayName": "", "tags": []any{}}},
		"empty objects":                  {spec: map[string]any{"projectRef": map[string]any{}, "owner": map[string]any{"type": "user"}, "tags": map[string]any{}}},
		"the most and the longest tags":  {spec: map[string]any{"tags": longTags()}, annotations: map[string]string{placement.AnnotationTags: tagsOf(longTags())}},
		"what cannot be a label":         {spec: map[string]any{"projectRef": "not a label", "visibility": strings.Repeat("v", 64)}},
		"what is of another type":        {spec: map[string]any{"projectRef": int64(1), "owner": map[string]any{"id": int64(1)}, "tags": []any{int64(1)}, "displayName": []any{"x"}}},
		"tags of another type":           {spec: map[string]any{"tags": map[string]any{"a": int64(1)}, "projectRef": map[string]any{"id": []any{}}}},
		"what is as long as it may":      {spec: map[string]any{"owner": strings.Repeat("o", MaxDescription)}, annotations: map[string]string{placement.AnnotationOwner: strings.Repeat("o", MaxDescription)}},
		"what is longer than it may":     {spec: map[string]any{"owner": strings.Repeat("o", MaxDescription+1)}},
		"a field that describes nothing": {spec: map[string]any{"owner-uid": "forged", "instance-uid": "forged"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := fixture.NewScope()
			s.Object().Object["spec"] = map[string]any{}
			plain := BuildNamespace(s)
			s.Object().Object["spec"] = test.spec
			ns := BuildNamespace(s)
			labels, annotations := maps.Clone(plain.Labels), maps.Clone(plain.Annotations)
			maps.Copy(labels, test.labels)
			maps.Copy(annotations, test.annotations)
			if diff := cmp.Diff(labels, ns.Labels) + cmp.Diff(annotations, ns.Annotations); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			described := len(test.labels)+len(test.annotations) > 0
			if Differs(ns, plain) != described || Differs(plain, ns) != described {
				t.Errorf("a description that came, or went, is seen: %v and %v, want %v", Differs(ns, plain), Differs(plain, ns), described)
			}
		})
	}
}

// The part of a compound instance says how that one is described, but where it has words of its own.
func TestANamespaceOfCopiesSaysHowTheInstanceAboveDescribesIt(t *testing.T) {
	for name, clones := range map[string]*scope.CloneWords{"copies": {}, "another kind": nil} {
		settings := fixture.NewSettings()
		settings.Clones = clones
		s := scope.New(fixture.Thing, settings, fixture.NewInstance(), sandbarv1alpha1.InstanceStatus{}, fixture.Placed)
		s.Object().SetLabels(map[string]string{placement.LabelProject: "shop", "team": "web"})
		s.Object().SetAnnotations(map[string]string{
			placement.AnnotationDisplayName: "Preview", placement.AnnotationTags: "a=b", "example.com/note": "x", placement.AnnotationOwner: strings.Repeat("o", MaxDescription+1),
		})
		s.Object().Object["spec"] = map[string]any{"displayName": "Its own"}
		got := map[string]string{}
		ns := BuildNamespace(s)
		for _, key := range append(DescriptiveLabels(), "team") {
			got[key] = ns.Labels[key]
		}
		for _, key := range append(DescriptiveAnnotations(), "example.com/note") {
			got[key] = ns.Annotations[key]
		}
		want := map[string]string{
			placement.LabelProject: "", placement.LabelVisibility: "", "team": "", "example.com/note": "", placement.AnnotationOwner: "", placement.AnnotationTags: "",
			placement.AnnotationDisplayName: "Its own",
		}
		if clones != nil {
			want[placement.LabelProject], want[placement.AnnotationTags] = "shop", "a=b"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// longTags are as many tags as the kind Sandbox admits, each as long as it may be.
func longTags() map[string]any {
	tags := map[string]any{}
	for i := range 16 {
		tags[strings.Repeat(string(rune('a'+i)), 63)] = strings.Repeat("v", 63)
	}
	return tags
}
