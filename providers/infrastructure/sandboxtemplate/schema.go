// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"fmt"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/crds"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
)

// kind is that of SandboxTemplates.
var kind = export.Kind{
	GVK:      schema.GroupVersionKind{Group: sandbarv1alpha1.GroupName, Version: "v1alpha1", Kind: "SandboxTemplate"},
	Resource: "sandboxtemplates",
}

const definition = "sandbar.dev_sandboxtemplates.yaml"

// buildSchema makes the kind's schema as tenants see it.
func buildSchema() (*kcpapisv1alpha1.APIResourceSchema, error) {
	raw, err := crds.Tenants.ReadFile(definition)
	if err != nil {
		return nil, fmt.Errorf("reading the definition of %s: %w", kind.Resource, err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		return nil, fmt.Errorf("reading the definition of %s: %w", kind.Resource, err)
	}
	// The pod is a Sandbox's, with all of its rules, and without the descriptions of a pod.
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	pod := podtemplate.Schema().Properties["podTemplate"]
	pod.Description = spec.Properties["template"].Description
	spec.Properties["template"] = pod
	return offer.Schema(crd, map[string]string{placement.LabelManagedBy: placement.ManagedBy})
}
