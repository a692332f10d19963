// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// checkCompound checks that the workloads of compound instances stand in the place of a pod template, and that nothing else
// has their names. Whether the Template that it names is there is not a matter of this one's spec: instances say so.
func checkCompound(spec *sandbarv1alpha1.TemplateSpec, schema *graphSchema) []Problem {
	fields := spec.Compound
	if fields == nil {
		return nil
	}
	var problems []Problem
	add := func(field, format string, args ...any) {
		problems = append(problems, Problem{"spec." + field, fmt.Sprintf(format, args...)})
	}
	if spec.PodTemplate == nil {
		add("compound", "needs podTemplate: an instance has workloads in the place of a pod template")
	}
	if _, ok := schema.Spec[fields.From]; ok {
		add("compound.from", "the graph's spec has the field %q already; Sandbar adds it to what tenants see, so remove it there or name another", fields.From)
	}
	if _, ok := schema.Spec[fields.RoutingFrom]; ok && fields.RoutingFrom != "" {
		add("compound.routingFrom", "the graph's spec has the field %q already; Sandbar adds it to what tenants see, so remove it there or name another", fields.RoutingFrom)
	}
	own := []string{"suspended", "mode", BaselineRefField, LifecycleField, PrewarmField, ResizeField, StartTimeoutField, RevisionField, EnvField, EnvFromField}
	if spec.PodTemplate != nil {
		own = append(own, spec.PodTemplate.From)
	}
	if slices.Contains(own, fields.From) {
		add("compound.from", "%q means something else; name another field", fields.From)
	}
	if slices.Contains(append(own, fields.From), fields.RoutingFrom) {
		add("compound.routingFrom", "%q means something else; name another field", fields.RoutingFrom)
	}
	if _, ok := schema.Spec[BaselineRefField]; ok {
		add("graph.schema.spec."+BaselineRefField, "is Sandbar's, for compound instances; give the field another name")
	}
	for _, name := range []string{"routingKey", "endpoints", "underlyingRefs", "workloads"} {
		if _, ok := schema.Status[name]; ok {
			add("graph.schema.status."+name, "is Sandbar's, for compound instances; give the field another name")
		}
	}
	return problems
}
