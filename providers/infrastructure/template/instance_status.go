// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// instanceStatusProperties is the schema of sandbarv1alpha1.InstanceStatus. It is written by
// hand because the type is no kind of its own; a test keeps the two alike.
func instanceStatusProperties() map[string]apiextensionsv1.JSONSchemaProps {
	str := apiextensionsv1.JSONSchemaProps{Type: "string"}
	return map[string]apiextensionsv1.JSONSchemaProps{
		"observedGeneration": {
			Type: "integer", Format: "int64",
			Description: "The generation of the spec that this status speaks of.",
		},
		"phase": {
			Type:        "string",
			Description: "One word for people: Pending, PendingCapacity, Materializing, Ready, Degraded, Suspending, Suspended, Sleeping, Waking, Failed or Deleting. Programs read the conditions.",
		},
		"conditions": {
			Type: "array", Description: "Placed, Composed, Suspended and Ready.",
			XListType: new("map"), XListMapKeys: []string{"type"},
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: conditionSchema()},
		},
		"dataPlane": {
			Type: "object", Description: "Where the instance's verbs are served.", Required: []string{"url"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"url": {Type: "string", Description: "The base of the verbs: append /log, /sync, /proxy/ and so on."},
				"verbs": {
					Type: "array", Description: "The verbs that the instance has; those of a component as components/<component>/<verb>.",
					XListType: new("set"), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &str},
				},
			},
		},
		"suspension": {
			Type: "object", Description: "Set while the instance is suspended.", Required: []string{"cause", "since"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"since": {Type: "string", Format: "date-time", Description: "When the instance was suspended."},
				"cause": {Type: "string", Description: "On whose behalf: ByUser, Expired or Unused."},
				"kept": {
					Type: "array", Description: "What outlives the suspension: Identity (name, URL, control token) and, if there are any, Volumes.",
					XListType: new("set"), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &str},
				},
			},
		},
		"start": {
			Type: "object", Description: "How the instance came to be.", Required: []string{"type"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"type":   {Type: "string", Description: "Warm: it took a sandbox that a set had ready. Cold: all of it was made for it."},
				"reason": {Type: "string", Description: "Why the start was cold, or, if it is ResizeInfeasible, why a warm one has not the resources of the template. Empty for kinds that no SandboxSet keeps ready."},
				"set": {
					Type: "object", Description: "The SandboxSet that it took a sandbox of.", Required: []string{"name"},
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": str},
				},
				"resized": {
					Type: "object", Description: "Set if the sandbox had other resources in its set, and got those of its template without a restart.",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"from": resourcesSchema(), "to": resourcesSchema()},
				},
				"times": {
					Type: "object", Description: "The moments of the start.",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"requested": {Type: "string", Format: "date-time", Description: "When the object was created, in whole seconds."},
						"placed":    {Type: "string", Format: "date-time", Description: "When its sandbox became its own."},
						"ready":     {Type: "string", Format: "date-time", Description: "When it was first Ready."},
					},
				},
				"steps": {
					Type:        "array",
					Description: "The steps that its pods took until it was first Ready, in their order; of a warm start those after it took its sandbox. They are written along with other changes of the status.",
					XListType:   new("map"), XListMapKeys: []string{"name"},
					Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: stepSchema()},
				},
			},
		},
		"createdBy": {
			Type: "object", Description: "The user who created the instance; left out if that is not known.", Required: []string{"username"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"username": {Type: "string", Description: "The user's name, as kcp knows it."}},
		},
		"activity": {
			Type: "object", Description: "When the instance was last used.",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"lastActiveTime": {Type: "string", Format: "date-time", Description: "When a data-plane request last reached the instance."},
			},
		},
	}
}

// stepSchema is the schema of InstanceStartStep.
func stepSchema() *apiextensionsv1.JSONSchemaProps {
	return &apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"name", "time"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"name": {Type: "string", Description: "Scheduled, ReadyToStartContainers, Initialized, Started or PodReady."},
			"time": {Type: "string", Format: "date-time", Description: "When the last of the pods took the step, in whole seconds."},
		},
	}
}

// resourcesSchema is the schema of InstanceResources.
func resourcesSchema() apiextensionsv1.JSONSchemaProps {
	list := apiextensionsv1.JSONSchemaProps{
		Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}},
	}
	return apiextensionsv1.JSONSchemaProps{
		Type: "object", Description: "CPU and memory of all containers together.",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"requests": list, "limits": list},
	}
}

// conditionSchema is the schema of metav1.Condition.
func conditionSchema() *apiextensionsv1.JSONSchemaProps {
	return &apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"lastTransitionTime", "message", "reason", "status", "type"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"lastTransitionTime": {Type: "string", Format: "date-time"},
			"message":            {Type: "string", MaxLength: new(int64(32768))},
			"observedGeneration": {Type: "integer", Format: "int64", Minimum: new(float64(0))},
			"reason":             {Type: "string", MinLength: new(int64(1)), MaxLength: new(int64(1024))},
			"status": {Type: "string", Enum: []apiextensionsv1.JSON{
				{Raw: []byte(`"True"`)}, {Raw: []byte(`"False"`)}, {Raw: []byte(`"Unknown"`)},
			}},
			"type": {Type: "string", MaxLength: new(int64(316))},
		},
	}
}

// printerColumns are what kubectl get shows of every kind, before the graph's own columns. A
// date is printed as the time since: right for what has been, and "<invalid>" for what is to
// come, so that the end of an instance is printed as it is written.
//
// Kinds with a pod template, which a SandboxSet may have ready, also have how they started.
func printerColumns(podTemplate bool) []apiextensionsv1.CustomResourceColumnDefinition {
	columns := []apiextensionsv1.CustomResourceColumnDefinition{
		{Name: "State", Type: "string", JSONPath: ".status.phase", Description: "One word for people."},
		{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`},
		{Name: "Idle", Type: "date", JSONPath: ".status.activity.lastActiveTime", Description: "Since when nobody has used it."},
		{Name: "Expires", Type: "string", JSONPath: ".spec.lifecycle.shutdownTime", Description: "When it ends, used or not."},
		{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
		{Name: "Reason", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].reason`, Priority: 1},
		{Name: "URL", Type: "string", JSONPath: ".status.dataPlane.url", Priority: 1},
	}
	if podTemplate {
		columns = append(columns,
			apiextensionsv1.CustomResourceColumnDefinition{Name: "Start", Type: "string", JSONPath: ".status.start.type", Priority: 1, Description: "Warm out of a SandboxSet, or Cold."},
			apiextensionsv1.CustomResourceColumnDefinition{Name: "Set", Type: "string", JSONPath: ".status.start.set.name", Priority: 1, Description: "The SandboxSet of a warm start."},
			apiextensionsv1.CustomResourceColumnDefinition{Name: "Why cold", Type: "string", JSONPath: ".status.start.reason", Priority: 1, Description: "Why the start was not warm."},
		)
	}
	return columns
}
