// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// wellKnown are what kubectl explain says of fields that mean the same in every graph, where the graph says nothing.
var wellKnown = map[string]string{
	"suspended": "Whether the instance is suspended: it has no pods then, and keeps its volumes, its name and its URL.",
	"mode":      "How the instance runs: production runs the program that its image has, development the files that you sync.",
	"tags":      "Words by which people find the instance. They grant nothing.",
}

// explain gives a sentence to the fields of a kind for which its graph has no place to say one.
func explain(root *apiextensionsv1.JSONSchemaProps, kind string) {
	spec, status := root.Properties["spec"], root.Properties["status"]
	if spec.Description == "" {
		spec.Description = "What you want the " + kind + " to be."
	}
	if status.Description == "" {
		status.Description = "How the " + kind + " is. The provider writes it."
	}
	for name, text := range wellKnown {
		if field, ok := spec.Properties[name]; ok && field.Description == "" {
			field.Description = text
			spec.Properties[name] = field
		}
	}
	root.Properties["spec"], root.Properties["status"] = spec, status
}
