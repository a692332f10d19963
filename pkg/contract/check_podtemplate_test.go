// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestAPodTemplateHasOneWayIntoTheGraph(t *testing.T) {
	graph := func(fields map[string]any) func(*sandbarv1alpha1.TemplateSpec) {
		return schemaField("spec", fields)
	}
	whole := map[string]any{"suspended": SuspendedField, "pod": PodField}
	fields := func(from, to string) *sandbarv1alpha1.PodTemplateFields {
		return &sandbarv1alpha1.PodTemplateFields{From: from, To: to}
	}
	for name, row := range map[string]struct {
		graph  map[string]any
		fields *sandbarv1alpha1.PodTemplateFields
		base   string
		field  string // of the problem; empty for none
	}{
		"both fields are as they should be":            {graph: whole, fields: fields("template", "pod")},
		"the graph has no field for the pod":           {graph: whole, fields: fields("template", "other"), field: "spec.podTemplate.to"},
		"the graph's field is not an object":           {graph: map[string]any{"suspended": SuspendedField, "pod": "string"}, fields: fields("template", "pod"), field: "spec.podTemplate.to"},
		"tenants would write the graph's field itself": {graph: whole, fields: fields("pod", "pod"), field: "spec.podTemplate.from"},
		"the tenants' field is Sandbar's":              {graph: whole, fields: fields("lifecycle", "pod"), field: "spec.podTemplate.from"},
		"a base that is a pod template":                {graph: whole, base: `{"spec":{"containers":[{"name":"a"}]}}`},
		"a base with a misspelt field":                 {graph: whole, base: `{"spec":{"container":[]}}`, field: "spec.base"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := goodSpec()
			graph(row.graph)(spec)
			spec.PodTemplate = row.fields
			if row.base != "" {
				spec.Base = &sandbarv1alpha1.PodTemplateBase{PodTemplate: runtime.RawExtension{Raw: []byte(row.base)}}
			}
			problems := Check(spec)
			switch {
			case row.field == "" && len(problems) > 0:
				t.Errorf("problems: %v", problems)
			case row.field != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0].String(), row.field)):
				t.Errorf("problems: %v, want one of %s", problems, row.field)
			}
		})
	}
}
