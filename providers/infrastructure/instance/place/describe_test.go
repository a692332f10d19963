// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

func TestANamespaceSaysHowItsTenantDescribesIt(t *testing.T) {
	for name, test := range map[string]struct {
		spec                map[string]any
		labels, annotations map[string]string
	}{
		"everything": {
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
		"what cannot be a label":         {spec: map[string]any{"projectRef": "not a label", "visibility": strings.Repeat("v", 64)}},
		"what is of another type":        {spec: map[string]any{"projectRef": int64(1), "owner": map[string]any{"name": "ann"}, "tags": []any{int64(1)}}},
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
