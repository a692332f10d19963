// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"encoding/json"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// maxSchemaBytes keeps the schema within what kcp stores in one object and serves in every
// workspace's OpenAPI document.
const maxSchemaBytes = 256 << 10

// compiled are the rules of the schema as the API server runs them.
type compiled struct {
	structural *structuralschema.Structural
	validator  *cel.Validator
}

func compile(t *testing.T) compiled {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(Schema(), &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	validator := cel.NewValidator(structural, false, celconfig.PerCallLimit)
	if validator == nil {
		t.Fatal("the schema has no rules")
	}
	return compiled{structural, validator}
}

func (c compiled) judge(t *testing.T, text string, old any) (problems []string) {
	t.Helper()
	var field any
	if err := yaml.Unmarshal([]byte(text), &field); err != nil {
		t.Fatal(err)
	}
	errs, _ := c.validator.Validate(t.Context(), nil, c.structural, field, old, celconfig.RuntimeCELCostBudget)
	for _, err := range errs {
		problems = append(problems, err.Error())
	}
	return problems
}

// What the API server refuses early, Build refuses too, and the other way round where the table
// says so: two lists that part would leave a hole or refuse what can be.
func TestTheRulesOfTheSchemaAgreeWithBuild(t *testing.T) {
	c := compile(t)
	for name, row := range refusals {
		problems := c.judge(t, row.source, nil)
		if row.early && len(problems) != 1 {
			t.Errorf("%s: the API server says %q, want one refusal", name, problems)
		}
		if !row.early && len(problems) != 0 {
			t.Errorf("%s: the API server says %q, want nothing", name, problems)
		}
	}
}

func TestRulesAboutTheSourceItself(t *testing.T) {
	volumes := `volumeClaimTemplates: [{metadata: {name: a}, spec: {resources: {requests: {storage: 1Gi}}}}]`
	var old map[string]any
	if err := yaml.Unmarshal([]byte(`{templateRef: {name: t}, `+volumes+`}`), &old); err != nil {
		t.Fatal(err)
	}
	c := compile(t)
	for name, row := range map[string]struct {
		source string
		old    any
		ok     bool
	}{
		"neither":                     {source: `{}`},
		"both":                        {source: `{templateRef: {name: t}, podTemplate: {spec: {containers: []}}}`},
		"one":                         {source: `{templateRef: {name: t}}`, ok: true},
		"volumes of the same name":    {source: `{templateRef: {name: t}, volumeClaimTemplates: [{metadata: {name: a}}, {metadata: {name: a}}]}`},
		"volumes as they were":        {source: `{templateRef: {name: other}, ` + volumes + `}`, old: old, ok: true},
		"volumes that were there":     {source: `{templateRef: {name: t}}`, old: old},
		"volumes that were not there": {source: `{templateRef: {name: t}, ` + volumes + `}`, old: map[string]any{"templateRef": map[string]any{"name": "t"}}},
	} {
		if problems := c.judge(t, row.source, row.old); (len(problems) == 0) != row.ok {
			t.Errorf("%s: the API server says %q", name, problems)
		}
	}
}

func TestTheSchemaIsNotTooLarge(t *testing.T) {
	raw, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > maxSchemaBytes {
		t.Errorf("it has %d bytes, and %d are the most", len(raw), maxSchemaBytes)
	}
	t.Logf("%d bytes", len(raw))
}
