// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func compoundTemplate(t *testing.T) *sandbarv1alpha1.Template {
	t.Helper()
	tmpl := plainTemplate(t, `{"suspended": "boolean | default=false", "pod": "object | required=true"}`)
	tmpl.Spec.PodTemplate = &sandbarv1alpha1.PodTemplateFields{From: "template", To: "pod"}
	tmpl.Spec.Compound = &sandbarv1alpha1.CompoundFields{From: "workloads", Template: "sandbox-group", RoutingFrom: "routing"}
	return tmpl
}

func TestTenantsMayWriteWorkloadsInThePlaceOfAPodTemplate(t *testing.T) {
	p, schema := hooked(t, compoundTemplate(t))
	root, err := schema.Spec.Versions[0].GetSchema()
	if err != nil {
		t.Fatal(err)
	}
	spec := root.Properties["spec"]
	if diff := cmp.Diff([]string(nil), spec.Required) + cmp.Diff([]string{"spec"}, root.Required); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	workloads := spec.Properties["workloads"]
	if workloads.MaxItems == nil || *workloads.MaxItems != sandbarv1alpha1.MaxSandboxGroupComponents || spec.Properties["baselineRef"].Type != "object" {
		t.Errorf("the workloads have no schema: %+v", workloads)
	}
	for _, name := range []string{"routingKey", "endpoints", "underlyingRefs", "workloads", "conditions"} {
		if _, there := root.Properties["status"].Properties[name]; !there {
			t.Errorf("the status has no %s", name)
		}
	}
	offered := spec
	if changes := incompatibilities(&offered, withLifecycle(p.spec)); len(changes) > 0 {
		t.Errorf("a Template is not compatible with itself: %v", changes)
	}
}

// An API server refuses a schema whose rules might cost too much: those of a pod and those of 16 workloads are in one.
func TestAnAPIServerTakesTheSchemaOfWorkloads(t *testing.T) {
	_, published := hooked(t, compoundTemplate(t))
	root, err := published.Spec.Versions[0].GetSchema()
	if err != nil {
		t.Fatal(err)
	}
	written, crd := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
	written.Name = published.Spec.Names.Plural + "." + published.Spec.Group
	written.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: published.Spec.Group, Names: published.Spec.Names, Scope: published.Spec.Scope,
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: published.Spec.Versions[0].Name, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: root},
		}},
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(written)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&written.Spec)
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(written, crd, nil); err != nil {
		t.Fatal(err)
	}
	crd.Status.StoredVersions = []string{written.Spec.Versions[0].Name}
	for _, problem := range validation.ValidateCustomResourceDefinition(t.Context(), crd) {
		t.Error(problem)
	}
}

// Objects of before the hook have to stay as they are.
func TestAKindThatGetsWorkloadsTakesNothingFromItsInstances(t *testing.T) {
	before := compoundTemplate(t)
	before.Spec.Compound = nil
	was, err := newPlan(before)
	if err != nil {
		t.Fatal(err)
	}
	is, err := newPlan(compoundTemplate(t))
	if err != nil {
		t.Fatal(err)
	}
	fitting, err := newFitting(withLifecycle(was.spec), withLifecycle(is.spec), nil)
	if err != nil {
		t.Fatal(err)
	}
	if found := fitting.problems(t.Context(), map[string]any{"template": map[string]any{"templateRef": map[string]any{"name": "node-22"}}}); len(found) > 0 {
		t.Errorf("problems: %v", found)
	}
}

func TestAnInstanceHasAPodTemplateOrWorkloads(t *testing.T) {
	p, err := newPlan(compoundTemplate(t))
	if err != nil {
		t.Fatal(err)
	}
	validate := validatorOf(t, withLifecycle(p.spec))
	const (
		pod       = `template: {templateRef: {name: node-22}}`
		routing   = `routing: {provider: gateway, gateway: {parentRefs: [{namespace: a, name: b}], hostnames: [c]}, interceptions: [{name: web, routeTo: {workload: web, port: http}}]}`
		workloads = `workloads: [{name: web, type: inherit, inherit: {sourceRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}]`
	)
	for name, row := range map[string]struct{ before, spec, want string }{
		"a pod template":                        {spec: pod},
		"workloads":                             {spec: workloads},
		"workloads of a Baseline":               {spec: workloads + `, baselineRef: {name: shop}`},
		"both":                                  {spec: pod + ", " + workloads, want: "remove template to have copies of workloads, or workloads to have a pod of your own"},
		"neither":                               {spec: `suspended: false`, want: "set template to have a pod of your own, or workloads"},
		"a pod template with a Baseline":        {spec: pod + `, baselineRef: {name: shop}`, want: "baselineRef is for workloads; remove it"},
		"workloads with variables of a pod":     {spec: workloads + `, env: [{name: A, value: b}]`, want: "env, envFrom and startTimeout are for template; remove them"},
		"workloads with a time for a start":     {spec: workloads + `, startTimeout: 1m`, want: "env, envFrom and startTimeout are for template; remove them"},
		"a pod template that becomes workloads": {before: pod, spec: workloads, want: "workloads does not take the place of template later"},
		"workloads that become a pod template":  {before: workloads, spec: pod, want: "workloads does not take the place of template later"},
		"workloads with routing":                {spec: workloads + ", " + routing},
		"a pod template with routing":           {spec: pod + ", " + routing, want: "routing is for workloads; remove it"},
		"routing to a workload that is not there": {
			spec: workloads + ", " + strings.ReplaceAll(routing, "workload: web", "workload: api"), want: "routeTo.workload of each of routing.interceptions must be the name of one of workloads",
		},
		"routing with a provider that has another field": {spec: workloads + ", " + strings.Replace(routing, "provider: gateway", "provider: istio", 1), want: "gateway is required with provider gateway, and refused with another"},
		"routing by a proxy without a target": {
			spec: workloads + ", routing: {provider: proxy, interceptions: [{name: web, routeTo: {workload: web, port: http}}]}", want: "targetService of an interception is required with provider proxy",
		},
		"routing by a proxy":                   {spec: workloads + ", routing: {provider: proxy, interceptions: [{name: web, targetService: {name: web}, routeTo: {workload: web, port: http}}]}"},
		"routing by a header that is not free": {spec: workloads + ", " + strings.Replace(routing, "{provider", "{key: {headerName: Cookie}, provider", 1), want: "cannot carry the ID"},
		"a match of the header of the ID":      {spec: workloads + ", " + strings.Replace(routing, "{name: web, routeTo", "{name: web, matches: [{headers: [{name: Baggage, value: x}]}], routeTo", 1), want: "a match must not name the header"},
		"a match of another header":            {spec: workloads + ", " + strings.Replace(routing, "{name: web, routeTo", "{name: web, matches: [{headers: [{name: X-Team, value: x}]}], routeTo", 1)},
		"a match of the header that is asked":  {spec: workloads + ", " + strings.Replace(strings.Replace(routing, "{name: web, routeTo", "{name: web, matches: [{headers: [{name: X-Team, value: x}]}], routeTo", 1), "{provider", "{key: {headerName: x-team}, provider", 1), want: "a match must not name the header"},
		"workloads that change":                {before: workloads, spec: strings.ReplaceAll(workloads, "web", "api")},
	} {
		t.Run(name, func(t *testing.T) {
			got := validate(row.spec, row.before)
			if row.want == "" && got != "" || !strings.Contains(got, row.want) {
				t.Errorf("it says %q, want %q", got, row.want)
			}
		})
	}
}

// What the documentation shows has to be taken as it is.
func TestTheExampleOfRoutingFitsTheSchema(t *testing.T) {
	raw, err := os.ReadFile("../../../examples/tenant/sandbox-routing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var example struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(raw, &example); err != nil {
		t.Fatal(err)
	}
	read, spec := &sandbarv1alpha1.SandboxWorkloadsSpec{}, map[string]any{}
	for _, field := range []string{"baselineRef", "workloads", "routing", "lifecycle"} {
		spec[field] = example.Spec[field]
	}
	p, err := newPlan(compoundTemplate(t))
	if err != nil {
		t.Fatal(err)
	}
	fitting, err := newFitting(withLifecycle(p.spec), withLifecycle(p.spec), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]any{}
	if err := utiljson.Unmarshal(text, &whole); err != nil { // with whole numbers
		t.Fatal(err)
	}
	if found := fitting.problems(t.Context(), whole); len(found) > 0 {
		t.Errorf("problems: %v", found)
	}
	delete(whole, "lifecycle")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(whole, read, true); err != nil || read.Routing == nil {
		t.Errorf("%+v, %v", read.Routing, err)
	}
}

// validatorOf returns what evaluates the rules of a spec, as an API server does; before is the former spec, empty for none.
func validatorOf(t *testing.T, spec *apiextensionsv1.JSONSchemaProps) func(now, before string) string {
	t.Helper()
	whole, _, err := structural(spec)
	if err != nil {
		t.Fatal(err)
	}
	validator := cel.NewValidator(whole, false, celconfig.PerCallLimit)
	read := func(text string) (fields map[string]any) {
		raw, err := yaml.YAMLToJSON([]byte("{" + text + "}"))
		if err == nil {
			err = json.Unmarshal(raw, &fields)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fields
	}
	return func(now, before string) string {
		var old any
		if before != "" {
			old = read(before)
		}
		errs, _ := validator.Validate(t.Context(), field.NewPath("spec"), whole, read(now), old, celconfig.RuntimeCELCostBudget)
		texts := make([]string, len(errs))
		for i, err := range errs {
			texts[i] = err.Error()
		}
		return strings.Join(texts, "; ")
	}
}
