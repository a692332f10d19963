// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
)

// withPodTemplate is the spec as tenants see it: with the field for their pod template in the
// place of the one that the graph takes the result from. A tenant that could write the latter
// would get a pod that nobody has checked; the API server drops it because no schema has it.
func withPodTemplate(spec *apiextensionsv1.JSONSchemaProps, fields *sandbarv1alpha1.PodTemplateFields) *apiextensionsv1.JSONSchemaProps {
	if fields == nil {
		return spec
	}
	spec = spec.DeepCopy()
	delete(spec.Properties, fields.To)
	spec.Properties[fields.From] = *podtemplate.Schema()
	spec.Properties[contract.PrewarmField] = prewarmSchema()
	spec.Properties[contract.ResizeField] = resizeSchema()
	spec.Properties[contract.StartTimeoutField] = startTimeoutSchema()
	withEnv(spec)
	spec.Required = slices.DeleteFunc(spec.Required, func(name string) bool { return name == fields.To })
	spec.Required = append(spec.Required, fields.From)
	slices.Sort(spec.Required)
	return spec
}

// prewarmSchema is that of the field that decides between a warm start and a cold one. It never reaches
// kro. A change counts while the instance has not started: one that waits for a sandbox of a set starts cold when
// Require becomes Prefer.
func prewarmSchema() apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{
		Type:        "string",
		Description: "Whether the instance may take a sandbox that a SandboxSet has ready: Prefer takes one with the same pod if there is one, Require waits for one and never starts without, None never takes one. It counts when the instance starts; status.start says how it did.",
		Enum:        []apiextensionsv1.JSON{{Raw: []byte(`"` + contract.PrewarmPrefer + `"`)}, {Raw: []byte(`"` + contract.PrewarmRequire + `"`)}, {Raw: []byte(`"` + contract.PrewarmNone + `"`)}},
		Default:     &apiextensionsv1.JSON{Raw: []byte(`"` + contract.PrewarmPrefer + `"`)},
	}
}

// resizeSchema is that of the field that says whether a sandbox of a set gets the resources of the template. It never reaches kro. As
// with prewarm, a change counts while the instance has not started.
func resizeSchema() apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{
		Type:        "string",
		Description: "Whether the instance may take a sandbox that a SandboxSet has with other resources than the template's: Require takes it only if it gets the template's without a restart, BestEffort takes it in any case, Keep leaves it the resources that it has. It counts when the instance starts; status.start.resized says what it had and has.",
		Enum:        []apiextensionsv1.JSON{{Raw: []byte(`"` + contract.ResizeRequire + `"`)}, {Raw: []byte(`"` + contract.ResizeBestEffort + `"`)}, {Raw: []byte(`"` + contract.ResizeKeep + `"`)}},
		Default:     &apiextensionsv1.JSON{Raw: []byte(`"` + contract.ResizeRequire + `"`)},
	}
}

// withEnv adds the fields of the instance's own variables. They never reach kro, and do not change: the pod has them from its
// start on.
func withEnv(spec *apiextensionsv1.JSONSchemaProps) {
	text := func(most int64, pattern, description string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: &most, Pattern: pattern, Description: description}
	}
	spec.Properties[contract.EnvField] = apiextensionsv1.JSONSchemaProps{
		Type: "array", MaxItems: new(int64(128)), XListType: new("map"), XListMapKeys: []string{"name"},
		Description: "Variables of the first container, 64 KiB together. A sandbox that a SandboxSet has ready gets them through its template's runtime; without one, the instance starts cold. They do not change.",
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Required: []string{"name"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"name":  text(128, "^[A-Za-z_][A-Za-z0-9_]*$", "Letters, digits and underscores, without a digit at the beginning. PORT, names that begin with SANDBAR_ and those that the template sets itself are refused."),
				"value": text(32<<10, "", "The value as it is: $(NAME) means nothing in it. Everybody who may read the instance reads it; use envFrom for secrets."),
			},
		}},
	}
	spec.Properties[contract.EnvFromField] = apiextensionsv1.JSONSchemaProps{
		Type: "array", MaxItems: new(int64(8)), XListType: new("atomic"),
		Description: "Secrets of the same namespace whose keys are variables of the first container, as they are when the instance starts. Each needs the label sandbar.dev/share with the value true, and the workspace's APIBinding must accept the permission claim get on secrets. They do not change.",
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Required: []string{"secretRef"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"secretRef": {
				Type: "object", Required: []string{"name"}, Description: "A Secret of the same namespace.",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": text(253, "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "Its name.")},
			}},
		}},
	}
	for _, name := range []string{contract.EnvField, contract.EnvFromField} {
		spec.XValidations = append(spec.XValidations, apiextensionsv1.ValidationRule{
			Rule:    fmt.Sprintf("has(self.%[1]s) == has(oldSelf.%[1]s) && (!has(self.%[1]s) || self.%[1]s == oldSelf.%[1]s)", name),
			Message: name + " does not change: a sandbox has its variables from its start on; create another one",
		})
	}
}

// startTimeoutSchema is that of the field that bounds a start. It never reaches kro.
func startTimeoutSchema() apiextensionsv1.JSONSchemaProps {
	schema := durationSchema("How long the instance may take to be Ready for the first time, from its creation: 1s to 1h. Then Ready has the reason StartTimedOut and the phase is Failed; nothing is deleted, and an instance that is Ready later says so. With prewarm: Require it counts for the wait for a sandbox of a set, 5m if it is not set; after it none is taken.")
	schema.XValidations = apiextensionsv1.ValidationRules{{
		Rule:    fmt.Sprintf("duration(self) >= duration('%s') && duration(self) <= duration('%s')", contract.StartTimeoutLeast, contract.StartTimeoutMost),
		Message: "must be from 1s to 1h",
	}}
	return schema
}
