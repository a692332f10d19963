// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	_ "embed"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// generated is written by controller-gen from Schemas (make generate). It has no descriptions:
// those of a pod alone would make it five times as large, in every workspace's OpenAPI document.
//
//go:embed schema/sandbar.dev_schemas.yaml
var generated []byte

// descriptions are what kubectl explain says of PodTemplateSource's own fields.
var descriptions = map[string]string{
	"podTemplate":          "The pod, as in a Deployment. Exactly one of podTemplate and templateRef is set.",
	"templateRef":          "A Template of the provider that offers a pod template, which the pod follows, or a SandboxTemplate.",
	"patch":                "A strategic merge patch of the pod template: an object with metadata and spec.",
	"volumeClaimTemplates": "Volumes that outlive the pod, as in a StatefulSet; containers mount them by name. They cannot be changed.",
}

// Schema returns the OpenAPI schema of PodTemplateSource, for the caller to change as it likes.
func Schema() *apiextensionsv1.JSONSchemaProps { return parsed().DeepCopy() }

var parsed = sync.OnceValue(func() *apiextensionsv1.JSONSchemaProps {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(generated, crd); err != nil {
		panic(fmt.Sprintf("the generated schema of pod templates: %v", err)) // part of the binary, and tested
	}
	source := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	source.Description = "The pod of the instance, and its volumes."
	for name, text := range descriptions {
		property := source.Properties[name]
		property.Description = text
		source.Properties[name] = property
	}
	return &source
})
