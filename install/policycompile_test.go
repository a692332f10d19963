// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"testing"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// policyExpression is an expression of a policy; name is empty unless it is a variable.
type policyExpression struct {
	name, text string
	returns    *cel.Type
}

func (e policyExpression) GetName() string          { return e.name }
func (e policyExpression) GetExpression() string    { return e.text }
func (e policyExpression) ReturnTypes() []*cel.Type { return []*cel.Type{e.returns} }

// TestAnAPIServerCompilesEveryPolicy: the other tests evaluate the policies without the types of a request. One that
// does not compile refuses every write that it is about.
func TestAnAPIServerCompilesEveryPolicy(t *testing.T) {
	all := policies(t, func(*Options) {})
	objects, err := kcpObjects(testOptions(), false)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, policiesOf(t, objects))
	for name, policy := range all {
		t.Run(name, func(t *testing.T) {
			compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
			if err != nil {
				t.Fatal(err)
			}
			declared := plugincel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil}
			for _, v := range policy.Spec.Variables {
				result := compiler.CompileAndStoreVariable(policyExpression{v.Name, v.Expression, cel.AnyType}, declared, environment.StoredExpressions)
				if result.Error != nil {
					t.Errorf("variable %s: %v", v.Name, result.Error)
				}
			}
			for _, e := range expressionsOf(policy) {
				if result := compiler.CompileCELExpression(e, declared, environment.StoredExpressions); result.Error != nil {
					t.Errorf("%s: %v", e.text, result.Error)
				}
			}
		})
	}
}

func expressionsOf(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (all []policyExpression) {
	for _, c := range policy.Spec.MatchConditions {
		all = append(all, policyExpression{text: c.Expression, returns: cel.BoolType})
	}
	for _, v := range policy.Spec.Validations {
		all = append(all, policyExpression{text: v.Expression, returns: cel.BoolType})
		if v.MessageExpression != "" {
			all = append(all, policyExpression{text: v.MessageExpression, returns: cel.StringType})
		}
	}
	return all
}
