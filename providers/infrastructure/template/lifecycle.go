// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

const (
	// durationPattern is what every reader of a duration understands: Go, CEL and people. The
	// API server alone would admit "1 day" too, which the controllers cannot read.
	durationPattern = `^([0-9]+(\.[0-9]+)?[hms])+$`
	// durationLength bounds a duration, so that the cost of the rules can be told.
	durationLength = 32
	// timePattern is RFC 3339; the API server alone would admit it in lower case, which Go does
	// not read.
	timePattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`
)

// withLifecycle returns the schema of a spec as tenants get it: the graph's and Sandbar's own
// field lifecycle, which never reaches kro.
func withLifecycle(spec *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	published := spec.DeepCopy()
	if published.Properties == nil {
		published.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	}
	published.Properties[contract.LifecycleField] = lifecycleSchema(published.Properties["replicas"].Type == "integer")
	return published
}

// lifecycleSchema is the schema of sandbarv1alpha1.Lifecycle. It is written by hand because the
// type is no kind of its own; a test keeps the two alike.
func lifecycleSchema(hasReplicas bool) apiextensionsv1.JSONSchemaProps {
	minReplicas := apiextensionsv1.JSONSchemaProps{
		Type: "integer", Format: "int32", Minimum: new(float64(0)),
		Description: "How many replicas an unused instance keeps, if its kind has spec.replicas. It does not sleep then: it shrinks to this number and grows back when it is used. Defaults to 0.",
	}
	if !hasReplicas {
		// The field is there to be refused: a field that is not would be dropped without a word.
		minReplicas.XValidations = apiextensionsv1.ValidationRules{{
			Rule: "self == 0", Message: "this kind has no spec.replicas, so it has no number of them to keep",
		}}
	}
	return apiextensionsv1.JSONSchemaProps{
		Type:        "object",
		Description: "When an instance that nobody uses sleeps or goes, and when it ends whatever happens. Any change of the spec counts as use.",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"sleepAfterUnused":  durationSchema("How long nobody must have used the instance for it to sleep: its pods are released, its volumes and its name are kept, and the next request wakes it. Without it the instance never sleeps. At least 1m."),
			"deleteAfterUnused": durationSchema("How long nobody must have used the instance for it to be deleted with all it holds, asleep and suspended or not. Without it: never. At least 1m, and longer than sleepAfterUnused."),
			"shutdownTime": {
				Type: "string", Format: "date-time", Pattern: timePattern,
				Description: "When the instance ends, used or not; shutdownPolicy says how. A later time renews it.",
			},
			"shutdownPolicy": {
				Type:        "string",
				Description: "What happens at shutdownTime: Delete, Retain (suspend, and keep it until it is deleted; deleteAfterUnused no longer counts) or Suspend (suspend; deleteAfterUnused goes on counting).",
				Enum: []apiextensionsv1.JSON{
					quoted(sandbarv1alpha1.ShutdownDelete), quoted(sandbarv1alpha1.ShutdownRetain), quoted(sandbarv1alpha1.ShutdownSuspend),
				},
				Default: new(quoted(sandbarv1alpha1.ShutdownRetain)),
			},
			"minReplicas": minReplicas,
		},
		XValidations: apiextensionsv1.ValidationRules{{
			Rule:    "!has(self.sleepAfterUnused) || !has(self.deleteAfterUnused) || duration(self.deleteAfterUnused) > duration(self.sleepAfterUnused)",
			Message: "deleteAfterUnused must be longer than sleepAfterUnused",
		}},
	}
}

func durationSchema(description string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{
		Type: "string", Pattern: durationPattern, MaxLength: new(int64(durationLength)), Description: description,
		XValidations: apiextensionsv1.ValidationRules{{
			Rule: "duration(self) >= duration('1m')", Message: "must be at least 1m",
		}},
	}
}

func quoted(policy sandbarv1alpha1.ShutdownPolicy) apiextensionsv1.JSON {
	return apiextensionsv1.JSON{Raw: []byte(`"` + string(policy) + `"`)}
}
