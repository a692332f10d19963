// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"maps"
	"strings"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestCopiesHaveOneWayIntoTheGraph(t *testing.T) {
	graph := func(more map[string]any) map[string]any {
		whole := map[string]any{"suspended": SuspendedField, "render": ClonesField, "claims": " []object|required=true "}
		maps.Copy(whole, more)
		return whole
	}
	fields := func(from, to, claims string) *sandbarv1alpha1.CloneFields {
		return &sandbarv1alpha1.CloneFields{From: from, To: to, Claims: claims}
	}
	good := fields("components", "render", "claims")
	for name, row := range map[string]struct {
		graph  map[string]any
		fields *sandbarv1alpha1.CloneFields
		more   func(*sandbarv1alpha1.TemplateSpec)
		field  string // of the problem; empty for none
	}{
		"all fields are as they should be":             {fields: good},
		"the graph has no field for the copies":        {fields: fields("components", "other", "claims"), field: "spec.clones.to"},
		"the graph has no field for the claims":        {fields: fields("components", "render", "other"), field: "spec.clones.claims"},
		"the graph's field is not a list":              {graph: map[string]any{"render": "object | required=true"}, fields: good, field: "spec.clones.to"},
		"an instance without copies would be composed": {graph: map[string]any{"render": "[]object"}, fields: good, field: "spec.clones.to"},
		"one field for copies and claims":              {fields: fields("components", "render", "render"), field: "spec.clones.claims"},
		"tenants would write the graph's field itself": {fields: fields("render", "render", "claims"), field: "spec.clones.from"},
		"the tenants' field is Sandbar's":              {fields: fields("baselineRef", "render", "claims"), field: "spec.clones.from"},
		"the graph has a field baselineRef":            {graph: map[string]any{"baselineRef": "string"}, fields: good, field: "spec.graph.schema.spec.baselineRef"},
		"beside an image to choose": {fields: good, field: "spec.imageChoice", graph: map[string]any{"image": `string | enum="a"`}, more: func(s *sandbarv1alpha1.TemplateSpec) {
			s.ImageChoice = &sandbarv1alpha1.ImageChoice{Field: "image", Images: []string{"a"}}
		}},
		"beside a pod template": {fields: good, field: "spec.podTemplate", graph: map[string]any{"pod": PodField}, more: func(s *sandbarv1alpha1.TemplateSpec) {
			s.PodTemplate = &sandbarv1alpha1.PodTemplateFields{From: "template", To: "pod"}
		}},
		"a conversion of the components": {fields: good, field: "spec.conversions[0].field", more: func(s *sandbarv1alpha1.TemplateSpec) {
			s.Conversions = []sandbarv1alpha1.Conversion{{Field: "components", Expression: "self"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := goodSpec()
			schemaField("spec", graph(row.graph))(spec)
			spec.Clones = row.fields
			if row.more != nil {
				row.more(spec)
			}
			problems := Check(spec)
			switch {
			case row.field == "" && len(problems) > 0:
				t.Errorf("problems: %v", problems)
			case row.field != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0].String(), row.field+":")):
				t.Errorf("problems: %v, want one of %s", problems, row.field)
			}
		})
	}
}
