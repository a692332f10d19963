// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	_ "embed"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed schema/sandbar.dev_schemas.yaml
var generated []byte

// SpecSchema returns the OpenAPI schema of SandboxGroupSpec, for the caller to change as it likes.
func SpecSchema() *apiextensionsv1.JSONSchemaProps { return schemaOf("spec") }

// StatusSchema is that of SandboxGroupStatus.
func StatusSchema() *apiextensionsv1.JSONSchemaProps { return schemaOf("status") }

// WorkloadsSchema is that of SandboxWorkloadsSpec.
func WorkloadsSchema() *apiextensionsv1.JSONSchemaProps { return schemaOf("workloads") }

// WorkloadsStatusSchema is that of SandboxWorkloadsStatus.
func WorkloadsStatusSchema() *apiextensionsv1.JSONSchemaProps { return schemaOf("workloadsStatus") }

func schemaOf(field string) *apiextensionsv1.JSONSchemaProps {
	schema := parsed().Properties[field]
	return schema.DeepCopy()
}

var parsed = sync.OnceValue(func() *apiextensionsv1.JSONSchemaProps {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(generated, crd); err != nil {
		panic(fmt.Sprintf("the generated schemas of SandboxGroups: %v", err)) // part of the binary, and tested
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
})
