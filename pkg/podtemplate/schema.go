// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// generated is written by controller-gen from Schemas (make generate). It has no descriptions:
// those of a pod alone would make it five times as large, in every workspace's OpenAPI document.
//
//go:embed schema/sandbar.dev_schemas.yaml
var generated []byte

// descriptions are what kubectl explain says of PodTemplateSource's own fields, by their paths; a field of a list's
// entries has [] behind the list.
var descriptions = map[string]string{
	"podTemplate":                                            "The pod, as in a Deployment. Exactly one of podTemplate and templateRef is set.",
	"podTemplate.metadata":                                   "Labels and annotations of the pod.",
	"podTemplate.metadata.labels":                            "Labels without a domain (app, not example.com/app) are free; others must be on the operator's allow-list.",
	"podTemplate.metadata.annotations":                       "Annotations must be on the operator's allow-list.",
	"podTemplate.spec":                                       "The pod's spec: kubectl explain pod.spec has its fields, in a workspace or cluster that has pods, and docs/pod-fields.md says which of them a tenant may set.",
	"templateRef":                                            "A Template of the provider that offers a pod template, which the pod follows, or a SandboxTemplate.",
	"templateRef.kind":                                       "Template, one of the provider's, or SandboxTemplate, one of the same namespace.",
	"templateRef.name":                                       "Name of the template.",
	"patch":                                                  "A strategic merge patch of the pod template: an object with metadata and spec.",
	"volumeClaimTemplates":                                   "Volumes that outlive the pod, as in a StatefulSet; containers mount them by name. They cannot be changed.",
	"volumeClaimTemplates[].metadata":                        "The name of the volume.",
	"volumeClaimTemplates[].metadata.name":                   "Name by which containers mount the volume.",
	"volumeClaimTemplates[].spec":                            "What the volume is.",
	"volumeClaimTemplates[].spec.accessModes":                "ReadWriteOnce, the default, or ReadWriteOncePod.",
	"volumeClaimTemplates[].spec.storageClassName":           "The storage class; the runtime cluster's default without it.",
	"volumeClaimTemplates[].spec.resources":                  "How large the volume is.",
	"volumeClaimTemplates[].spec.resources.requests":         "How large the volume is.",
	"volumeClaimTemplates[].spec.resources.requests.storage": "Size in Mi or Gi.",
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
	for path, text := range descriptions {
		describe(&source, strings.Split(path, "."), text)
	}
	return &source
})

// describe gives a description to a field below another one. A path that leads nowhere is a mistake in descriptions,
// which a test finds.
func describe(field *apiextensionsv1.JSONSchemaProps, path []string, text string) {
	if len(path) == 0 {
		field.Description = text
		return
	}
	name, isList := strings.CutSuffix(path[0], "[]")
	property, ok := field.Properties[name]
	if !ok {
		panic("the generated schema of pod templates has no field " + path[0]) // part of the binary, and tested
	}
	if isList {
		describe(property.Items.Schema, path[1:], text)
	} else {
		describe(&property, path[1:], text)
	}
	field.Properties[name] = property
}
