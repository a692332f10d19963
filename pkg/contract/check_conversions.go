// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// checkConversions checks that no conversion writes a field that means something to the controllers: they would act on
// what a Template makes of it, and not on what the tenant has written. The expressions are compiled elsewhere.
func checkConversions(spec *sandbarv1alpha1.TemplateSpec) []Problem {
	own := []string{"suspended", "mode", LifecycleField, RevisionField}
	if fields := spec.PodTemplate; fields != nil {
		own = append(own, fields.From, fields.To, PrewarmField, ResizeField, StartTimeoutField, EnvField, EnvFromField)
	}
	if fields := spec.Clones; fields != nil {
		own = append(own, fields.From, fields.To, fields.Claims, BaselineRefField)
	}
	if fields := spec.Compound; fields != nil {
		own = append(own, fields.From, BaselineRefField)
		if fields.RoutingFrom != "" {
			own = append(own, fields.RoutingFrom)
		}
	}
	var problems []Problem
	for i, c := range spec.Conversions {
		at := fmt.Sprintf("spec.conversions[%d].field", i)
		if slices.Contains(own, c.Field) {
			problems = append(problems, Problem{at, fmt.Sprintf("%q is a field of Sandbar's own, which has the same form in every version; leave this conversion out", c.Field)})
		}
		if slices.ContainsFunc(spec.Conversions[:i], func(other sandbarv1alpha1.Conversion) bool { return other.Field == c.Field }) {
			problems = append(problems, Problem{at, fmt.Sprintf("%q has a conversion already; write both as one expression", c.Field)})
		}
	}
	return problems
}
