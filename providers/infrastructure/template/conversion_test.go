// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	krometadata "github.com/kubernetes-sigs/kro/pkg/metadata"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/conversion"
	"github.com/sandbar-dev/sandbar/templates"
)

// formerSandbox is the schema of a Sandbox's spec in version 0.1.0 of its Template.
func formerSandbox(t *testing.T, fields *sandbarv1alpha1.PodTemplateFields) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	raw := func(fields map[string]any) runtime.RawExtension {
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: text}
	}
	schema, err := openAPIOf(&krov1alpha1.Schema{
		Types: raw(map[string]any{"Tag": `string | minLength=1 maxLength=63 pattern="^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"`}),
		Spec: raw(map[string]any{
			"pod": "object | required=true", "suspended": "boolean | default=false", "displayName": "string | maxLength=128", "owner": "string | maxLength=128",
			"visibility": `string | default="private" enum="private,project,public"`,
			"projectRef": `string | maxLength=63 pattern="^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$"`, "tags": "[]Tag | maxItems=16 uniqueItems=true",
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return withLifecycle(withPodTemplate(schema, fields))
}

func sandboxPlan(t *testing.T) (*sandbarv1alpha1.Template, *plan) {
	t.Helper()
	tmpl, err := templates.Get("sandbox")
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(tmpl)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl, p
}

func TestASandboxOfTheFormerFormIsNotInTheWay(t *testing.T) {
	tmpl, p := sandboxPlan(t)
	was, is := formerSandbox(t, tmpl.Spec.PodTemplate), withLifecycle(p.spec)
	if len(incompatibilities(was, is)) == 0 {
		t.Fatal("the schemas are compatible, and nobody would have to be asked")
	}
	for name, tc := range map[string]struct {
		fields    string
		converted []string // problems with the conversions
		plain     string   // a problem without them
	}{
		"nothing":          {fields: `{}`},
		"a project":        {fields: `{"projectRef": "shop"}`, plain: "spec.projectRef would be invalid"},
		"no project":       {fields: `{"projectRef": ""}`, plain: "spec.projectRef would be invalid"},
		"an owner":         {fields: `{"owner": "jane@example.com"}`, plain: "spec.owner would be invalid"},
		"tags":             {fields: `{"tags": ["demo", "q4"]}`, plain: "spec.tags would be invalid"},
		"all of them":      {fields: `{"projectRef": "shop", "owner": "Jane", "tags": ["demo"], "displayName": "Notes"}`, plain: "spec.owner would be invalid"},
		"the new form":     {fields: `{"projectRef": {"id": "shop"}, "owner": {"type": "group", "id": "web"}, "tags": {"team": "checkout", "demo": ""}}`},
		"another fault":    {fields: `{"visibility": "secret"}`, converted: []string{"spec.visibility would be invalid"}, plain: "spec.visibility would be invalid"},
		"a broken project": {fields: `{"projectRef": {}}`, converted: []string{"spec.projectRef.id would be invalid"}, plain: "spec.projectRef.id would be invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			var spec map[string]any
			if err := utiljson.Unmarshal([]byte(tc.fields), &spec); err != nil {
				t.Fatal(err)
			}
			spec["template"] = map[string]any{"templateRef": map[string]any{"kind": "Template", "name": "python"}}
			with, err := newFitting(was, is, p.conversions)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.converted, with.problems(t.Context(), spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			without, err := newFitting(was, is, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(without.problems(t.Context(), spec), ", "); (got == "") != (tc.plain == "") || !strings.Contains(got, tc.plain) {
				t.Errorf("without conversions: %q, want %q", got, tc.plain)
			}
		})
	}
}

// withConversion gives the Template of a world a new form of the field owner.
func (w *narrowingWorld) withConversion(expression string) {
	w.Helper()
	w.tmpl.Spec.Conversions = []sandbarv1alpha1.Conversion{{Field: "owner", Expression: expression}}
	set, err := conversion.Compile(w.tmpl.Spec.Conversions)
	if err != nil {
		w.Fatal(err)
	}
	w.plan.conversions = set
	w.plan.offered = schemaFrom(w.T, map[string]any{"owner": "string"})
	w.plan.spec = schemaFrom(w.T, map[string]any{"owner": map[string]any{"id": "string | required=true"}})
}

func TestTheGateAdmitsInstancesThatAreConverted(t *testing.T) {
	for name, tc := range map[string]struct {
		expression string
		specs      []string
		want       string // who is in the way; empty for nobody
	}{
		"all of the former form":               {"type(self) == string ? {'id': self} : self", []string{`{"owner":"ann"}`, `{"owner":"bob"}`}, ""},
		"some of the new form":                 {"type(self) == string ? {'id': self} : self", []string{`{"owner":{"id":"ann"}}`, `{"owner":"bob"}`, `{}`}, ""},
		"a form that the new schema lacks too": {"type(self) == string ? {'name': self} : self", []string{`{"owner":"ann"}`}, "1 instances in 1 workspaces (tenant) are in the way: spec.owner.id would be invalid in 1"},
		"a conversion that fails": {
			"self.id",
			[]string{`{"owner":"ann"}`, `{"owner":"bob"}`},
			"2 instances in 1 workspaces (tenant) are in the way: spec.owner would be invalid in 2, the conversion of spec.owner fails in 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNarrowingWorld(t)
			w.withConversion(tc.expression)
			w.specs = tc.specs
			got, err := w.users(t.Context(), w.tmpl, w.plan)
			if err != nil || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("users: %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// Before kro serves the new form, an instance of the former form is as it should be.
func TestConversionsAreInForceOnceKroServesTheKind(t *testing.T) {
	for name, tc := range map[string]struct {
		seen int64 // generation of the graph that kro has taken
		want []sandbarv1alpha1.Conversion
	}{
		"kro serves the former schema": {seen: 1, want: nil},
		"kro serves the new one":       {seen: 2, want: []sandbarv1alpha1.Conversion{{Field: "owner", Expression: "self"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNarrowingWorld(t)
			w.tmpl.Spec.Conversions = []sandbarv1alpha1.Conversion{{Field: "owner", Expression: "self"}}
			ways, _, problem, err := w.compose(t.Context(), w.tmpl, w.plan, &krov1alpha1.ResourceGraphDefinition{})
			if err != nil || problem != "" {
				t.Fatal(problem, err)
			}
			rgd := &krov1alpha1.ResourceGraphDefinition{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(ways[0].Object, rgd); err != nil {
				t.Fatal(err)
			}
			rgd.UID, rgd.Generation = "graph", 2
			for _, condition := range []krov1alpha1.ConditionType{
				krov1alpha1.RGDConditionTypeGraphAccepted, krov1alpha1.RGDConditionTypeKindReady, krov1alpha1.RGDConditionTypeControllerReady,
			} {
				rgd.Status.Conditions = append(rgd.Status.Conditions, krov1alpha1.Condition{Type: condition, Status: metav1.ConditionTrue, ObservedGeneration: tc.seen})
			}
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
				Name: w.plan.gvr.GroupResource().String(), Labels: map[string]string{krometadata.ResourceGraphDefinitionNameLabel: rgd.Name},
			}}
			crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
			w.runtime = graphWriter(t, rgd, crd).runtime
			if _, _, err := w.acceptGraph(t.Context(), w.tmpl, w.plan); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, w.tmpl.Status.Conversions); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAConversionThatDoesNotCompileIsACondition(t *testing.T) {
	w := newNarrowingWorld(t)
	w.tmpl.Spec.DataPlane = sandbarv1alpha1.DataPlane{}
	w.tmpl.Spec.Conversions = []sandbarv1alpha1.Conversion{{Field: "owner", Expression: "self =="}}
	if _, ok, err := w.check(t.Context(), w.tmpl); ok || err != nil {
		t.Fatalf("ok %v, %v", ok, err)
	}
	c := meta.FindStatusCondition(w.tmpl.Status.Conditions, sandbarv1alpha1.TemplateGraphAccepted)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reasonInvalid ||
		!strings.Contains(c.Message, "spec.conversions[0].expression, of the field owner: Syntax error") {
		t.Errorf("the condition is %+v", c)
	}
}

// staticLimit is the estimated cost that an API server admits for one rule of a schema.
const staticLimit = 10_000_000

// An API server refuses a schema with a rule that may cost too much.
func TestAnAPIServerTakesTheRulesAboutTags(t *testing.T) {
	_, p := sandboxPlan(t)
	tags := p.spec.Properties["tags"]
	schema, _, err := structural(&tags)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := cel.Compile(schema, model.SchemaDeclType(schema, false), celconfig.PerCallLimit,
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), cel.NewExpressionsEnvLoader())
	if err != nil || len(rules) != 3 {
		t.Fatalf("compiled to %+v: %v", rules, err)
	}
	for i, rule := range rules {
		if rule.Error != nil || rule.MaxCost > staticLimit {
			t.Errorf("%s: %v, costs %d", tags.XValidations[i].Rule, rule.Error, rule.MaxCost)
		}
	}
}

func TestTheFieldsThatDescribeASandboxAreBounded(t *testing.T) {
	_, p := sandboxPlan(t)
	is := withLifecycle(p.spec)
	f, err := newFitting(is, is, nil)
	if err != nil {
		t.Fatal(err)
	}
	word := strings.Repeat("k", 63)
	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d": ""`, i)
	}
	for name, tc := range map[string]struct{ fields, want string }{
		"tags":                         {`{"tags": {"team": "checkout", "ticket.v1_2-a": "ENG-421", "9": ""}}`, ""},
		"as many tags as there may be": {`{"tags": {` + strings.Join(many[1:], ",") + `}}`, ""},
		"one more":                     {`{"tags": {` + strings.Join(many, ",") + `}}`, "spec.tags would be invalid"},
		"the longest words":            {`{"tags": {"` + word + `": "` + word + `"}, "projectRef": {"id": "` + word + `"}}`, ""},
		"a longer key":                 {`{"tags": {"k` + word + `": ""}}`, "spec.tags would be invalid"},
		"an empty key":                 {`{"tags": {"": "a"}}`, "spec.tags would be invalid"},
		"a key with a comma":           {`{"tags": {"a,b": "a"}}`, "spec.tags would be invalid"},
		"a key that ends with a dot":   {`{"tags": {"a.": "a"}}`, "spec.tags would be invalid"},
		"a longer value":               {`{"tags": {"a": "k` + word + `"}}`, "spec.tags.a would be invalid"},
		"a value with a space":         {`{"tags": {"a": "b c"}}`, "spec.tags.a would be invalid"},
		"a longer project":             {`{"projectRef": {"id": "k` + word + `"}}`, "spec.projectRef.id would be invalid"},
		"an empty project":             {`{"projectRef": {"id": ""}}`, "spec.projectRef.id would be invalid"},
		"an owner of another type":     {`{"owner": {"type": "robot", "id": "a"}}`, "spec.owner.type would be invalid"},
		"an owner without a type":      {`{"owner": {"id": "oidc:jane@example.com"}}`, ""},
		"an owner without an id":       {`{"owner": {"type": "user"}}`, "spec.owner.id would be invalid"},
		"texts":                        {`{"projectRef": "shop", "owner": "ann"}`, "spec.owner would be invalid, spec.projectRef would be invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			var spec map[string]any
			if err := utiljson.Unmarshal([]byte(tc.fields), &spec); err != nil {
				t.Fatal(err)
			}
			spec["template"] = map[string]any{"templateRef": map[string]any{"kind": "Template", "name": "python"}}
			if got := strings.Join(f.problems(t.Context(), spec), ", "); got != tc.want {
				t.Errorf("problems %q, want %q", got, tc.want)
			}
		})
	}
}
