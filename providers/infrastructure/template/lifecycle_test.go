// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// The schema of Lifecycle is written by hand.
func TestTheLifecycleSchemaHasTheFieldsOfLifecycle(t *testing.T) {
	compareFields(t, "lifecycle", reflect.TypeFor[sandbarv1alpha1.Lifecycle](), lifecycleSchema(true).Properties)
}

func TestEveryKindHasALifecycleThatKroDoesNotKnow(t *testing.T) {
	_, _, _, root := build(t, `{"suspended": "boolean | default=false"}`)
	if _, ok := root.Properties["spec"].Properties["lifecycle"]; !ok {
		t.Error("the published spec has no lifecycle")
	}
	p, err := newPlan(plainTemplate(t, `{"suspended": "boolean | default=false"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.spec.Properties["lifecycle"]; ok {
		t.Error("the graph's spec has a lifecycle")
	}
}

// Instances that were written before there was a lifecycle must go on being admitted.
func TestATemplateOfBeforeLifecycleMayGetIt(t *testing.T) {
	p, err := newPlan(plainTemplate(t, `{"suspended": "boolean | default=false", "replicas": "integer | default=1"}`))
	if err != nil {
		t.Fatal(err)
	}
	if changes := incompatibilities(p.spec, withLifecycle(p.spec)); len(changes) > 0 {
		t.Errorf("getting a lifecycle is refused: %v", changes)
	}
	if changes := incompatibilities(withLifecycle(p.spec), withLifecycle(p.spec)); len(changes) > 0 {
		t.Errorf("keeping it is refused: %v", changes)
	}
}

func TestALifecycleIsCheckedWhenItIsWritten(t *testing.T) {
	type object = map[string]any
	for name, tc := range map[string]struct {
		fields object
		kind   string // the kind's fields, if other than replicas
		want   string // part of the refusal; empty: admitted
	}{
		"nothing is admitted":                         {fields: object{}},
		"sleep before deletion is admitted":           {fields: object{"sleepAfterUnused": "30m", "deleteAfterUnused": "24h"}},
		"hours, minutes and seconds are admitted":     {fields: object{"sleepAfterUnused": "1h2m3.5s"}},
		"a minute is admitted":                        {fields: object{"sleepAfterUnused": "60s"}},
		"less than a minute of sleep is refused":      {fields: object{"sleepAfterUnused": "59s"}, want: "must be at least 1m"},
		"less than a minute to deletion is refused":   {fields: object{"deleteAfterUnused": "0s"}, want: "must be at least 1m"},
		"a negative duration is refused":              {fields: object{"sleepAfterUnused": "-1h"}, want: "should match"},
		"a duration in days is refused":               {fields: object{"sleepAfterUnused": "1 day"}, want: "should match"},
		"a duration that nobody can hold is refused":  {fields: object{"sleepAfterUnused": "99999999999999999999h"}, want: "type conversion error"},
		"deletion before sleep is refused":            {fields: object{"sleepAfterUnused": "2h", "deleteAfterUnused": "1h"}, want: "deleteAfterUnused must be longer than sleepAfterUnused"},
		"deletion together with sleep is refused":     {fields: object{"sleepAfterUnused": "1h", "deleteAfterUnused": "60m"}, want: "deleteAfterUnused must be longer than sleepAfterUnused"},
		"a time with a zone is admitted":              {fields: object{"shutdownTime": "2030-01-02T03:04:05.678+02:00", "shutdownPolicy": "Delete"}},
		"a time that Go cannot read is refused":       {fields: object{"shutdownTime": "2030-01-02t03:04:05z"}, want: "should match"},
		"a day is no time":                            {fields: object{"shutdownTime": "2030-01-02"}, want: "should match"},
		"a policy that does not exist is refused":     {fields: object{"shutdownPolicy": "Explode"}, want: "Unsupported value"},
		"replicas are kept where there are replicas":  {fields: object{"minReplicas": int64(2)}},
		"fewer replicas than none are refused":        {fields: object{"minReplicas": int64(-1)}, want: "greater than or equal to 0"},
		"no replicas can be kept where there is none": {fields: object{"minReplicas": int64(1)}, kind: `"size": "integer | default=1"`, want: "this kind has no spec.replicas"},
		"replicas that are a text are none":           {fields: object{"minReplicas": int64(1)}, kind: `"replicas": "string"`, want: "this kind has no spec.replicas"},
		"zero replicas can be kept anywhere":          {fields: object{"minReplicas": int64(0)}, kind: `"size": "integer | default=1"`},
	} {
		t.Run(name, func(t *testing.T) {
			kind := tc.kind
			if kind == "" {
				kind = `"replicas": "integer | default=1"`
			}
			got := admit(t, kind, tc.fields)
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("the answer is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAShutdownPolicyDefaultsToRetain(t *testing.T) {
	fields := map[string]any{"shutdownTime": "2030-01-02T03:04:05Z"}
	if got := admit(t, `"size": "integer | default=1"`, fields); got != "" {
		t.Fatal(got)
	}
	if got := fields["shutdownPolicy"]; got != "Retain" {
		t.Errorf("shutdownPolicy is %v", got)
	}
}

// admit sets the defaults of a lifecycle and checks it as kcp would; it returns the refusals.
func admit(t *testing.T, kindFields string, lifecycle map[string]any) string {
	t.Helper()
	return check(t, kindFields, map[string]any{
		"metadata": map[string]any{"name": "one"}, "spec": map[string]any{"lifecycle": lifecycle},
	}, nil)
}

// check sets the defaults of an object and checks it as kcp would, next to what it is to replace.
func check(t *testing.T, kindFields string, object, old map[string]any) string {
	t.Helper()
	_, _, _, root := build(t, `{"suspended": "boolean | default=false", `+kindFields+`}`)
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(root, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(err)
	}
	defaulting.Default(object, structural)
	errs := validation.ValidateCustomResource(nil, runtime.DeepCopyJSON(object), validator)
	rules := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	var before any // as the API server calls it: nil, and no empty map, when an object is created
	if old != nil {
		before = old
	}
	ofRules, _ := rules.Validate(t.Context(), nil, structural, object, before, celconfig.RuntimeCELCostBudget)
	if all := append(errs, ofRules...).ToAggregate(); all != nil {
		return all.Error()
	}
	return ""
}
