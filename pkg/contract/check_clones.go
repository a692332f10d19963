// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// ClonesField is what a graph's spec says of the fields that get copies of workloads and the claims of their volumes.
const ClonesField = "[]object | required=true"

// BaselineRefField is a field of the spec of kinds whose instances are copies of workloads: the Baseline that has them.
const BaselineRefField = "baselineRef"

// checkClones checks that the copies of workloads have a way into the graph and no other. A tenant who could write one of the
// graph's fields would get pods that nobody has checked.
func checkClones(spec *sandbarv1alpha1.TemplateSpec, schema *graphSchema) []Problem {
	fields := spec.Clones
	if fields == nil {
		return nil
	}
	var problems []Problem
	add := func(field, format string, args ...any) {
		problems = append(problems, Problem{"spec." + field, fmt.Sprintf(format, args...)})
	}
	for name, other := range map[string]bool{
		"podTemplate": spec.PodTemplate != nil, "imageChoice": spec.ImageChoice != nil, "development": spec.Development != nil,
	} {
		if other {
			add(name, "cannot be beside clones: the pods are those of the Baseline's workloads")
		}
	}
	if _, ok := schema.Spec[fields.From]; ok {
		add("clones.from", "the graph's spec has the field %q already; Sandbar adds it to what tenants see, so remove it there or name another", fields.From)
	}
	if slices.Contains([]string{"suspended", "mode", BaselineRefField, LifecycleField, RevisionField}, fields.From) {
		add("clones.from", "%q means something else; name another field", fields.From)
	}
	if _, ok := schema.Spec[BaselineRefField]; ok {
		add("graph.schema.spec."+BaselineRefField, "is Sandbar's, for kinds of copies; give the field another name")
	}
	for _, name := range []string{"sandboxID", "components"} {
		if _, ok := schema.Status[name]; ok {
			add("graph.schema.status."+name, "is Sandbar's, for kinds of copies; give the field another name")
		}
	}
	if fields.Claims == fields.To {
		add("clones.claims", "is the field of the copies, too; name another")
	}
	for at, name := range map[string]string{"to": fields.To, "claims": fields.Claims} {
		if declared, _ := schema.Spec[name].(string); normalized(declared) != ClonesField {
			add("clones."+at, "the graph's spec must have the field %q, and say of it %q", name, ClonesField)
		}
	}
	return problems
}
