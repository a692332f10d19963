// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
)

// PodField is what a graph's spec says of the field that gets the pod template.
const PodField = "object | required=true"

// checkPodTemplate checks that a tenant's pod template has a way into the graph and no other,
// and that a base is a pod template.
func checkPodTemplate(spec *sandbarv1alpha1.TemplateSpec, schema *graphSchema) []Problem {
	var problems []Problem
	add := func(field, format string, args ...any) {
		problems = append(problems, Problem{"spec." + field, fmt.Sprintf(format, args...)})
	}
	if fields := spec.PodTemplate; fields != nil {
		if _, ok := schema.Spec[fields.From]; ok || strings.EqualFold(fields.From, fields.To) {
			add("podTemplate.from", "the graph's spec has the field %q already; Sandbar adds it to what tenants see, so remove it there or name another", fields.From)
		}
		if slices.Contains([]string{"suspended", "mode", LifecycleField, PrewarmField, ResizeField, StartTimeoutField, RevisionField, EnvField, EnvFromField}, fields.From) {
			add("podTemplate.from", "%q means something else; name another field", fields.From)
		}
		// Of these kinds alone: a graph whose pod is its own may have variables that its tenants write.
		for _, name := range []string{EnvField, EnvFromField} {
			if _, ok := schema.Spec[name]; ok {
				add("graph.schema.spec."+name, "is Sandbar's, for kinds with a pod template; give the field another name")
			}
		}
		if declared, _ := schema.Spec[fields.To].(string); normalized(declared) != PodField {
			add("podTemplate.to", "the graph's spec must have the field %q, and say of it %q", fields.To, PodField)
		}
	}
	if spec.Base != nil {
		if _, err := podtemplate.NewBase(spec.Base); err != nil {
			add("base", "%v", err)
		}
	}
	return problems
}
