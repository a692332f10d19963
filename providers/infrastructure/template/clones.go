// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

// withClones is the spec as tenants see it: with the fields for a Baseline and the components in the place of those that
// the graph takes the copies from. The API server drops what a tenant writes into the latter: no schema has them.
func withClones(spec *apiextensionsv1.JSONSchemaProps, fields *sandbarv1alpha1.CloneFields) *apiextensionsv1.JSONSchemaProps {
	if fields == nil {
		return spec
	}
	spec = spec.DeepCopy()
	own := clone.SpecSchema()
	graphs := []string{fields.To, fields.Claims}
	for _, name := range graphs {
		delete(spec.Properties, name)
	}
	spec.Properties[contract.BaselineRefField] = own.Properties["baselineRef"]
	spec.Properties[fields.From] = own.Properties["components"]
	spec.Required = slices.DeleteFunc(spec.Required, func(name string) bool { return slices.Contains(graphs, name) })
	spec.Required = append(spec.Required, fields.From)
	slices.Sort(spec.Required)
	return spec
}

// withCopies is the status as tenants see it, with what there is of the copies.
func withCopies(status apiextensionsv1.JSONSchemaProps, fields *sandbarv1alpha1.CloneFields) apiextensionsv1.JSONSchemaProps {
	if fields == nil {
		return status
	}
	status = *status.DeepCopy()
	maps.Copy(status.Properties, clone.StatusSchema().Properties)
	return status
}
