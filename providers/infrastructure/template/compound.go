// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

// withWorkloads is the spec as tenants see it, of a kind with a pod template: with the fields for workloads in its place. An
// object that has a pod template stays as it is.
func withWorkloads(spec *apiextensionsv1.JSONSchemaProps, tmpl *sandbarv1alpha1.TemplateSpec) *apiextensionsv1.JSONSchemaProps {
	if tmpl.Compound == nil {
		return spec
	}
	spec = spec.DeepCopy()
	pod, from, own := tmpl.PodTemplate.From, tmpl.Compound.From, clone.WorkloadsSchema()
	spec.Properties[contract.BaselineRefField] = own.Properties["baselineRef"]
	spec.Properties[from] = own.Properties["workloads"]
	if tmpl.Compound.RoutingFrom != "" {
		spec.Properties[tmpl.Compound.RoutingFrom] = own.Properties["routing"]
		spec.XValidations = append(spec.XValidations, routingRules(tmpl.Compound.RoutingFrom, from)...)
	}
	spec.Required = slices.DeleteFunc(spec.Required, func(name string) bool { return name == pod })
	spec.XValidations = append(spec.XValidations,
		apiextensionsv1.ValidationRule{
			Rule:    fmt.Sprintf("has(self.%s) != has(self.%s)", pod, from),
			Message: fmt.Sprintf("exactly one of %s and %s must be set", pod, from),
			MessageExpression: fmt.Sprintf("has(self.%[1]s) ? 'remove %[1]s to have copies of workloads, or %[2]s to have a pod of your own: they cannot be together' : "+
				"'set %[1]s to have a pod of your own, or %[2]s to have copies of workloads'", pod, from),
		},
		// What is on the runtime cluster is of one form, and would be lost.
		apiextensionsv1.ValidationRule{
			Rule:    fmt.Sprintf("has(self.%[1]s) == has(oldSelf.%[1]s)", from),
			Message: fmt.Sprintf("%s does not take the place of %s later, nor the other way round; create another one", from, pod),
		},
		apiextensionsv1.ValidationRule{
			Rule:    fmt.Sprintf("!has(self.%s) || has(self.%s)", contract.BaselineRefField, from),
			Message: fmt.Sprintf("%s is for %s; remove it", contract.BaselineRefField, from),
		},
		apiextensionsv1.ValidationRule{
			Rule: fmt.Sprintf("!has(self.%s) || !(%s)", from, anyOf(contract.EnvField, contract.EnvFromField, contract.StartTimeoutField)),
			Message: fmt.Sprintf("%s, %s and %s are for %s; remove them, and set variables in %s[].inherit.overrides.containers",
				contract.EnvField, contract.EnvFromField, contract.StartTimeoutField, pod, from),
		})
	return spec
}

// routingRules are those of the routing of a spec with workloads. What it says in itself, its schema checks.
func routingRules(routing, workloads string) apiextensionsv1.ValidationRules {
	return apiextensionsv1.ValidationRules{
		{
			Rule:    fmt.Sprintf("!has(self.%s) || has(self.%s)", routing, workloads),
			Message: fmt.Sprintf("%s is for %s; remove it", routing, workloads),
		},
		{
			Rule:    fmt.Sprintf("!has(self.%[1]s) || !has(self.%[2]s) || self.%[1]s.interceptions.all(i, self.%[2]s.exists(w, w.name == i.routeTo.workload))", routing, workloads),
			Message: fmt.Sprintf("routeTo.workload of each of %s.interceptions must be the name of one of %s", routing, workloads),
		},
	}
}

// anyOf is an expression that is true if one of the fields is set.
func anyOf(names ...string) string {
	terms := make([]string, len(names))
	for i, name := range names {
		terms[i] = fmt.Sprintf("has(self.%s)", name)
	}
	return strings.Join(terms, " || ")
}

// withRolledUp is the status as tenants see it, with what there is of the workloads.
func withRolledUp(status apiextensionsv1.JSONSchemaProps, fields *sandbarv1alpha1.CompoundFields) apiextensionsv1.JSONSchemaProps {
	if fields == nil {
		return status
	}
	status = *status.DeepCopy()
	maps.Copy(status.Properties, clone.WorkloadsStatusSchema().Properties)
	conditions := status.Properties["conditions"]
	conditions.Description = fmt.Sprintf("Placed, Composed, Suspended and Ready; with spec.%s Applied, Rendered, Attached, Suspended and Ready.", fields.From)
	status.Properties["conditions"] = conditions
	return status
}
