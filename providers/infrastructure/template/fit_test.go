// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"strings"
	"testing"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func schemaFrom(t *testing.T, fields map[string]any) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := openAPIOf(&krov1alpha1.Schema{Spec: runtime.RawExtension{Raw: raw}})
	if err != nil {
		t.Fatal(err)
	}
	return withLifecycle(schema)
}

// A schema may admit less as long as nobody loses anything, and everybody can go on to change what
// they have.
func TestASchemaMayAdmitLessIfNobodyMisses(t *testing.T) {
	was := map[string]any{
		"size": "string | default=\"1Gi\"", "more": "string | default=\"b\"", "free": "string",
		"nested": map[string]any{"deep": "integer | default=3", "other": "string"},
		"list":   "[]string", "count": "integer | default=1", "map": "map[string]string",
	}
	without := func(name string) map[string]any {
		is := map[string]any{}
		for key, value := range was {
			if key != name {
				is[key] = value
			}
		}
		return is
	}
	with := func(name string, value any) map[string]any {
		is := without(name)
		is[name] = value
		return is
	}
	for name, tc := range map[string]struct {
		is   map[string]any
		spec string
		want string // a problem; empty for none
	}{
		"a field goes that nobody set":                {without("free"), `{"size":"1Gi"}`, ""},
		"a field goes that has its default":           {without("more"), `{"more":"b"}`, ""},
		"a field goes that somebody has set":          {without("more"), `{"more":"c"}`, "spec.more is set"},
		"an object goes that holds defaults":          {without("nested"), `{"nested":{"deep":3}}`, ""},
		"an object goes that holds more":              {without("nested"), `{"nested":{"deep":3,"other":"x"}}`, "spec.nested is set"},
		"a field of an object goes":                   {with("nested", map[string]any{"deep": "integer | default=3"}), `{"nested":{"other":"x"}}`, "spec.nested.other is set"},
		"a maximum that holds":                        {with("count", "integer | default=1 maximum=5"), `{"count":5}`, ""},
		"a maximum that does not":                     {with("count", "integer | default=1 maximum=5"), `{"count":6}`, "spec.count would be invalid"},
		"a new required field with a default":         {with("new", "string | required=true default=\"x\""), `{}`, ""},
		"a new required field without":                {with("new", "string | required=true"), `{}`, "spec.new would be invalid"},
		"an enum that has the value":                  {with("size", `string | default="1Gi" enum="1Gi,2Gi"`), `{"size":"2Gi"}`, ""},
		"an enum that has not":                        {with("size", `string | default="1Gi" enum="1Gi,2Gi"`), `{"size":"3Gi"}`, "spec.size would be invalid"},
		"a rule that holds":                           {with("count", `integer | default=1 validation="self != 7"`), `{"count":6}`, ""},
		"a rule that does not":                        {with("count", `integer | default=1 validation="self != 7"`), `{"count":7}`, "spec.count would be invalid"},
		"a map that goes on to have any key":          {without("free"), `{"map":{"a":"b"}}`, ""},
		"a map whose values are another type":         {with("map", "map[string]integer"), `{"map":{"a":"b"}}`, "spec.map.a would be invalid"},
		"another type":                                {with("count", "string | default=\"1\""), `{"count":1}`, "spec.count would be invalid"},
		"Sandbar's own fields are no field that goes": {without("free"), `{"lifecycle":{"sleepAfterUnused":"5m"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := newFitting(schemaFrom(t, was), schemaFrom(t, tc.is), nil)
			if err != nil {
				t.Fatal(err)
			}
			var spec map[string]any
			if err := utiljson.Unmarshal([]byte(tc.spec), &spec); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(f.problems(t.Context(), spec), ", ")
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("problems of %s: %q, want %q", tc.spec, got, tc.want)
			}
		})
	}
}
