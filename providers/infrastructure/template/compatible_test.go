// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernetes-sigs/kro/pkg/simpleschema"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func specOf(t *testing.T, fields map[string]any) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	schema, err := simpleschema.ToOpenAPISpec(fields, nil)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestIncompatibilitiesNameTheFieldAndTheChange(t *testing.T) {
	type fields = map[string]any
	for name, tc := range map[string]struct {
		old, updated fields
		want         []string
	}{
		"nothing changes":                       {fields{"a": "string"}, fields{"a": "string"}, nil},
		"an optional field is added":            {fields{"a": "string"}, fields{"a": "string", "b": "string"}, nil},
		"a field with a default is added":       {fields{"a": "string"}, fields{"a": "string", "b": "integer | required=true default=1"}, nil},
		"a default changes":                     {fields{"a": "string | default=x"}, fields{"a": "string | default=y"}, nil},
		"a constraint is relaxed":               {fields{"a": "integer | minimum=5"}, fields{"a": "integer | minimum=4"}, nil},
		"an enum is taken away":                 {fields{"a": `string | enum="x,y"`}, fields{"a": "string"}, nil},
		"a required field is added":             {fields{"a": "string"}, fields{"a": "string", "b": "string | required=true"}, []string{"spec.b is new and required"}},
		"a field is removed":                    {fields{"a": "string", "b": "string"}, fields{"a": "string"}, []string{"spec.b was removed"}},
		"a nested field is removed":             {fields{"a": fields{"b": "string", "c": "string"}}, fields{"a": fields{"c": "string"}}, []string{"spec.a.b was removed"}},
		"a type changes":                        {fields{"a": "string"}, fields{"a": "integer"}, []string{"spec.a: type changed from string to integer"}},
		"a field becomes required":              {fields{"a": "string"}, fields{"a": "string | required=true"}, []string{"spec: field a is newly required"}},
		"a minimum is raised":                   {fields{"a": "integer | minimum=1"}, fields{"a": "integer | minimum=2"}, []string{"spec.a: minimum was increased from 1 to 2"}},
		"a pattern is added":                    {fields{"a": "string"}, fields{"a": `string | pattern="^x$"`}, []string{"spec.a: validation pattern ^x$ was added"}},
		"an enum loses a value":                 {fields{"a": `string | enum="x,y"`}, fields{"a": `string | enum="x"`}, []string{`spec.a: enum value "y" was removed`}},
		"an enum is added where anything was":   {fields{"a": "string"}, fields{"a": `string | enum="x"`}, []string{"spec.a: an enum was added"}},
		"a field becomes immutable":             {fields{"a": "string"}, fields{"a": "string | immutable=true"}, []string{`spec.a: the validation "self == oldSelf" was added`}},
		"items must be unique":                  {fields{"a": "[]string"}, fields{"a": "[]string | uniqueItems=true"}, []string{"spec.a: the list type changed from atomic to set, so items must be unique now"}},
		"the values of a map change their type": {fields{"a": "map[string]string"}, fields{"a": "map[string]integer"}, []string{"spec.a.*: type changed from string to integer"}},
		"an open object is closed":              {fields{"a": "object"}, fields{"a": fields{"b": "string"}}, []string{"spec.a: unknown fields are not kept any more"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := incompatibilities(specOf(t, tc.old), specOf(t, tc.updated))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatWasNeverOfferedIsCompatibleWithAnything(t *testing.T) {
	if got := incompatibilities(nil, specOf(t, map[string]any{"a": "string | required=true"})); got != nil {
		t.Errorf("got %v, want nothing", got)
	}
}
