// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"maps"
	"strings"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestWorkloadsStandInThePlaceOfAPodTemplate(t *testing.T) {
	for name, row := range map[string]struct {
		spec, status map[string]any // of the graph, beside what is good
		from         string         // "workloads" if it is empty
		more         func(*sandbarv1alpha1.TemplateSpec)
		field        string // of the problem; empty for none
	}{
		"all fields are as they should be":                           {},
		"there is no pod template":                                   {field: "spec.compound", more: func(s *sandbarv1alpha1.TemplateSpec) { s.PodTemplate = nil }},
		"the graph has the field already":                            {spec: map[string]any{"workloads": "string"}, field: "spec.compound.from"},
		"it is the field of the pod template":                        {from: "template", field: "spec.compound.from"},
		"it is a field of Sandbar's":                                 {from: "prewarm", field: "spec.compound.from"},
		"the graph has a field baselineRef":                          {spec: map[string]any{"baselineRef": "string"}, field: "spec.graph.schema.spec.baselineRef"},
		"the graph's status has workloads":                           {status: map[string]any{"workloads": "${a.b}"}, field: "spec.graph.schema.status.workloads"},
		"the graph's status has a routing key":                       {status: map[string]any{"routingKey": "${a.b}"}, field: "spec.graph.schema.status.routingKey"},
		"the graph's status has underlying refs":                     {status: map[string]any{"underlyingRefs": "${a.b}"}, field: "spec.graph.schema.status.underlyingRefs"},
		"the graph's status has endpoints":                           {status: map[string]any{"endpoints": "${a.b}"}, field: "spec.graph.schema.status.endpoints"},
		"the graph has a field routing":                              {spec: map[string]any{"routing": "string"}, field: "spec.compound.routingFrom"},
		"the routing is in the workloads' field":                     {field: "spec.compound.routingFrom", more: func(s *sandbarv1alpha1.TemplateSpec) { s.Compound.RoutingFrom = "workloads" }},
		"the routing is in a field of Sandbar's":                     {field: "spec.compound.routingFrom", more: func(s *sandbarv1alpha1.TemplateSpec) { s.Compound.RoutingFrom = "lifecycle" }},
		"there is no routing, and the graph has a field of the name": {spec: map[string]any{"routing": "string"}, more: func(s *sandbarv1alpha1.TemplateSpec) { s.Compound.RoutingFrom = "" }},
		"a conversion of the routing": {field: "spec.conversions[0].field", more: func(s *sandbarv1alpha1.TemplateSpec) {
			s.Conversions = []sandbarv1alpha1.Conversion{{Field: "routing", Expression: "self"}}
		}},
		"a conversion of the workloads": {field: "spec.conversions[0].field", more: func(s *sandbarv1alpha1.TemplateSpec) {
			s.Conversions = []sandbarv1alpha1.Conversion{{Field: "workloads", Expression: "self"}}
		}},
		"a conversion of the Baseline's name": {field: "spec.conversions[0].field", more: func(s *sandbarv1alpha1.TemplateSpec) {
			s.Conversions = []sandbarv1alpha1.Conversion{{Field: "baselineRef", Expression: "self"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			spec, graph, status := goodSpec(), map[string]any{"suspended": SuspendedField, "pod": PodField}, graphOf(t, goodSpec()).Status
			maps.Copy(graph, row.spec)
			maps.Copy(status, row.status)
			schemaField("spec", graph)(spec)
			schemaField("status", status)(spec)
			spec.PodTemplate = &sandbarv1alpha1.PodTemplateFields{From: "template", To: "pod"}
			spec.Compound = &sandbarv1alpha1.CompoundFields{From: "workloads", Template: "sandbox-group", RoutingFrom: "routing"}
			if row.from != "" {
				spec.Compound.From = row.from
			}
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

func graphOf(t *testing.T, spec *sandbarv1alpha1.TemplateSpec) *graphSchema {
	t.Helper()
	schema, problems := parseGraph(spec.Graph.Raw)
	if schema == nil {
		t.Fatal(problems)
	}
	return schema
}
