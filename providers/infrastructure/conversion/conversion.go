// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversion gives the spec of an instance that was made under a former schema the form of the present one, as
// the conversions of its Template say. It is pure: the Template's gate asks it whether the new schema would admit an
// instance, and the instance controller writes what it returns.
package conversion

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	celconversion "github.com/kubernetes-sigs/kro/pkg/cel/conversion"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// variable is the value of the field in an expression.
const variable = "self"

// Set are the conversions of a Template, compiled. A nil Set converts nothing.
type Set struct {
	source   []sandbarv1alpha1.Conversion
	programs []cel.Program // in the order of source
}

// environmentOf is that of every expression: Kubernetes' own, with the limit on the cost of one evaluation that rules
// of schemas have.
var environmentOf = sync.OnceValues(func() (*cel.Env, error) {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: []cel.EnvOption{cel.Variable(variable, cel.DynType)},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing CEL: %w", err)
	}
	return set.NewExpressionsEnv(), nil
})

// Compile compiles conversions; nil if there are none. The error names the conversion that is wrong.
func Compile(conversions []sandbarv1alpha1.Conversion) (*Set, error) {
	if len(conversions) == 0 {
		return nil, nil //nolint:nilnil // a nil Set converts nothing
	}
	env, err := environmentOf()
	if err != nil {
		return nil, err
	}
	s := &Set{source: slices.Clone(conversions)}
	for i, c := range conversions {
		compiled, issues := env.Compile(c.Expression)
		if issues.Err() != nil {
			return nil, fmt.Errorf("spec.conversions[%d].expression, of the field %s: %s", i, c.Field, said(issues))
		}
		program, err := env.Program(compiled, cel.CostLimit(celconfig.PerCallLimit))
		if err != nil {
			return nil, fmt.Errorf("spec.conversions[%d].expression, of the field %s: %w", i, c.Field, err)
		}
		s.programs = append(s.programs, program)
	}
	return s, nil
}

// said is what CEL says of an expression, in one line.
func said(issues *cel.Issues) string {
	var texts []string
	for _, e := range issues.Errors() {
		texts = append(texts, fmt.Sprintf("%s (line %d, column %d)", e.Message, e.Location.Line(), e.Location.Column()+1))
	}
	return strings.Join(texts, "; ")
}

// Of returns the spec in the form of the present schema, and reports whether that differs from the given one, which it
// does not change. A field whose conversion fails stays as it is; the error names those fields, and no values.
func (s *Set) Of(spec map[string]any) (converted map[string]any, differs bool, err error) {
	converted = spec
	if s == nil {
		return converted, false, nil
	}
	var failed []error
	for i, program := range s.programs {
		field := s.source[i].Field
		before := spec[field]
		if before == nil {
			continue
		}
		after, err := evaluate(program, before)
		if err != nil {
			failed = append(failed, fmt.Errorf("the conversion of spec.%s fails", field))
			continue
		}
		if equality.Semantic.DeepEqual(before, after) {
			continue
		}
		if !differs {
			converted, differs = maps.Clone(spec), true
		}
		if converted[field] = after; after == nil {
			delete(converted, field)
		}
	}
	return converted, differs, errors.Join(failed...)
}

// evaluate returns the result as JSON has it.
func evaluate(program cel.Program, value any) (any, error) {
	result, _, err := program.Eval(map[string]any{variable: value})
	if err != nil {
		return nil, err
	}
	native, err := celconversion.GoNativeType(result)
	if err != nil {
		return nil, err
	}
	return celconversion.EnsureJSONSafe(native)
}

// Equal reports whether two Sets are of the same conversions.
func (s *Set) Equal(other *Set) bool {
	if s == nil || other == nil {
		return s == other
	}
	return slices.Equal(s.source, other.source)
}
