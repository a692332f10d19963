// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// admitted are policies as an API server evaluates them: with its own compiler, its own conversion of objects, and its own limit of
// costs.
type admitted struct {
	t        *testing.T
	policies []admittedPolicy
}

type admittedPolicy struct {
	*admissionregistrationv1.ValidatingAdmissionPolicy

	conditions, validations plugincel.ConditionEvaluator
	// params chooses the parameters, and about the objects that the policy is about.
	params, about labels.Selector
}

// change is a write as the API server shows it to a policy. Before or after is nil where there is none.
type change struct {
	operation     admission.Operation
	resource      schema.GroupVersionResource
	subresource   string
	namespace     string
	name          string
	before, after runtime.Object
	// services are those of the namespace, for a policy that has them as its parameters.
	services []*corev1.Service
}

var (
	services    = corev1.SchemeGroupVersion.WithResource("services")
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	budgets     = schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}
)

// admissionOf compiles the policies that bind the controllers, with one image of proxies.
func admissionOf(t *testing.T, image string) *admitted {
	t.Helper()
	opts := testOptions()
	opts.proxyImage = image
	objects, err := runtimeObjects(opts, "restricted")
	if err != nil {
		t.Fatal(err)
	}
	bindings := map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range objects {
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding); err != nil {
				t.Fatal(err)
			}
			bindings[binding.Spec.PolicyName] = binding
		}
	}
	a := &admitted{t: t}
	for name, policy := range policiesOf(t, objects) {
		if name == "sandbar-controllers" || strings.HasPrefix(name, "sandbar-interception") {
			a.policies = append(a.policies, compiled(t, policy, bindings[name]))
		}
	}
	slices.SortFunc(a.policies, func(a, b admittedPolicy) int { return strings.Compare(a.Name, b.Name) })
	return a
}

func selectorOf(t *testing.T, selector *metav1.LabelSelector) labels.Selector {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compiled(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) admittedPolicy {
	t.Helper()
	params, about := labels.Nothing(), labels.Everything()
	if policy.Spec.ParamKind != nil {
		params = selectorOf(t, binding.Spec.ParamRef.Selector)
	}
	if s := policy.Spec.MatchConstraints.ObjectSelector; s != nil {
		about = selectorOf(t, s)
	}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	declared := plugincel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range policy.Spec.Variables {
		variables = append(variables, policyExpression{v.Name, v.Expression, cel.AnyType})
	}
	compiler.CompileAndStoreVariables(variables, declared, environment.StoredExpressions)
	var conditions, validations []plugincel.ExpressionAccessor
	for _, c := range policy.Spec.MatchConditions {
		conditions = append(conditions, policyExpression{text: c.Expression, returns: cel.BoolType})
	}
	for _, v := range policy.Spec.Validations {
		validations = append(validations, policyExpression{text: v.Expression, returns: cel.BoolType})
	}
	p := admittedPolicy{
		policy,
		compiler.CompileCondition(conditions, declared, environment.StoredExpressions),
		compiler.CompileCondition(validations, declared, environment.StoredExpressions),
		params, about,
	}
	for _, err := range slices.Concat(p.conditions.CompilationErrors(), p.validations.CompilationErrors()) {
		t.Errorf("%s: %v", policy.Name, err)
	}
	return p
}

// refusal is what the first policy says that refuses a write of the controllers; empty if none does.
func (a *admitted) refusal(c change) string {
	a.t.Helper()
	for _, p := range a.policies {
		if !p.isAbout(c) {
			continue
		}
		params := []runtime.Object{nil}
		if p.Spec.ParamKind != nil {
			params = nil
			for _, service := range c.services {
				if p.params.Matches(labels.Set(service.Labels)) {
					params = append(params, service)
				}
			}
		}
		for _, param := range params {
			if said := a.judge(p, c, param); said != "" {
				return said
			}
		}
	}
	return ""
}

func (p *admittedPolicy) isAbout(c change) bool {
	what := c.resource.Resource
	if c.subresource != "" {
		what += "/" + c.subresource
	}
	for _, rule := range p.Spec.MatchConstraints.ResourceRules {
		isResource := slices.ContainsFunc(rule.Resources, func(r string) bool {
			return r == what || r == "*/*" || strings.HasSuffix(r, "/*") && strings.HasPrefix(what, strings.TrimSuffix(r, "*"))
		})
		isGroup := slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIGroups, c.resource.Group)
		isOperation := slices.Contains(rule.Operations, "*") || slices.Contains(rule.Operations, admissionregistrationv1.OperationType(c.operation))
		if isResource && isGroup && isOperation {
			return p.selects(c.before) || p.selects(c.after)
		}
	}
	return false
}

func (p *admittedPolicy) selects(object runtime.Object) bool {
	of, ok := object.(metav1.Object)
	return ok && p.about.Matches(labels.Set(of.GetLabels()))
}

func (a *admitted) judge(p admittedPolicy, c change, param runtime.Object) string {
	a.t.Helper()
	attributes := admission.NewAttributesRecord(c.after, c.before, schema.GroupVersionKind{}, c.namespace, c.name, c.resource, c.subresource,
		c.operation, nil, false, &user.DefaultInfo{Name: controllersUser})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedObject: c.after, VersionedOldObject: c.before}
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(c.resource), metav1.GroupVersionKind{})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	eval := func(by plugincel.ConditionEvaluator, budget int64) []plugincel.EvaluationResult {
		results, _, err := by.ForInput(context.Background(), versioned, request, plugincel.OptionalVariableBindings{VersionedParams: param}, namespace, budget)
		if err != nil {
			a.t.Fatalf("%s: %v", p.Name, err)
		}
		return results
	}
	for _, result := range eval(p.conditions, celconfig.RuntimeCELCostBudgetMatchConditions) {
		if result.Error != nil {
			return result.Error.Error()
		}
		if result.EvalResult != types.True {
			return ""
		}
	}
	for i, result := range eval(p.validations, celconfig.RuntimeCELCostBudget) {
		if result.Error != nil {
			return result.Error.Error()
		}
		if result.EvalResult != types.True {
			return p.Spec.Validations[i].Message
		}
	}
	return ""
}
