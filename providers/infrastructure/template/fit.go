// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/conversion"
)

// fitting reports whether specs that one schema admits would lose something, or not be admitted, under
// another, once they are converted. It judges as the API server would: by its own pruning, defaulting and validation.
type fitting struct {
	conversions *conversion.Set
	was, is     *structuralschema.Structural
	openapi     validation.SchemaValidator
	rules       *cel.Validator
}

func newFitting(was, is *apiextensionsv1.JSONSchemaProps, conversions *conversion.Set) (*fitting, error) {
	old, _, err := structural(was)
	if err != nil {
		return nil, fmt.Errorf("reading the schema that tenants have: %w", err)
	}
	updated, internal, err := structural(is)
	if err != nil {
		return nil, fmt.Errorf("reading the new schema: %w", err)
	}
	openapi, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, fmt.Errorf("reading the new schema: %w", err)
	}
	return &fitting{
		conversions: conversions, was: old, is: updated, openapi: openapi, rules: cel.NewValidator(updated, false, celconfig.PerCallLimit),
	}, nil
}

func structural(schema *apiextensionsv1.JSONSchemaProps) (*structuralschema.Structural, *apiextensions.JSONSchemaProps, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, internal, nil); err != nil {
		return nil, nil, err
	}
	s, err := structuralschema.NewStructural(internal)
	return s, internal, err
}

// problems lists what is wrong with a spec under the new schema, by field.
func (f *fitting) problems(ctx context.Context, spec map[string]any) []string {
	spec, _, failed := f.conversions.Of(spec)
	problems := lost("spec", spec, f.was, f.is)
	if failed != nil {
		problems = append(problems, strings.Split(failed.Error(), "\n")...) // one line for each field
	}
	kept := runtime.DeepCopyJSON(spec)
	pruning.Prune(kept, f.is, false)
	structuraldefaulting.Default(kept, f.is)
	path := field.NewPath("spec")
	errs := validation.ValidateCustomResource(path, kept, f.openapi)
	errs = append(errs, listtype.ValidateListSetsAndMaps(path, f.is, kept)...)
	if f.rules != nil {
		broken, _ := f.rules.Validate(ctx, path, f.is, kept, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	for _, err := range errs {
		problems = append(problems, err.Field+" would be invalid")
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// lost lists the fields of a value that the new schema does not have and that say something else
// than the default which goes with them.
func lost(path string, value any, was, is *structuralschema.Structural) []string {
	switch v := value.(type) {
	case map[string]any:
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, lostField(path+"."+name, name, v[name], was, is)...)
		}
		return fields
	case []any:
		if is == nil || is.Items == nil {
			return nil
		}
		var before *structuralschema.Structural
		if was != nil {
			before = was.Items
		}
		var fields []string
		for _, item := range v {
			fields = append(fields, lost(path+".items", item, before, is.Items)...)
		}
		return fields
	}
	return nil
}

func lostField(path, name string, value any, was, is *structuralschema.Structural) []string {
	before, after := fieldOf(was, name), fieldOf(is, name)
	switch {
	case after != nil:
		return lost(path, value, before, after)
	case is != nil && is.XPreserveUnknownFields:
		return nil
	case before != nil && before.Default.Object != nil && equality.Semantic.DeepEqual(before.Default.Object, value):
		return nil
	case before != nil && isDefaulted(value, before):
		return nil
	}
	return []string{path + " is set"}
}

// isDefaulted reports whether an object holds nothing but defaults of its fields.
func isDefaulted(value any, schema *structuralschema.Structural) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	empty := map[string]any{}
	structuraldefaulting.Default(empty, schema)
	return equality.Semantic.DeepEqual(object, empty)
}

// fieldOf is the schema of a field, or of the values of a map; nil if there is none.
func fieldOf(schema *structuralschema.Structural, name string) *structuralschema.Structural {
	if schema == nil {
		return nil
	}
	if property, ok := schema.Properties[name]; ok {
		return &property
	}
	if schema.AdditionalProperties != nil {
		return schema.AdditionalProperties.Structural
	}
	return nil
}
