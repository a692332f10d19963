// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	"github.com/kubernetes-sigs/kro/pkg/graph/crd"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
)

// plainTemplate is a Template whose status has something to hide.
func plainTemplate(t *testing.T, specFields string) *sandbarv1alpha1.Template {
	t.Helper()
	graph := `{"schema": {"apiVersion": "v1alpha1", "kind": "Thing", "group": "sandbar.dev", "categories": ["things"],
		"spec": ` + specFields + `,
		"additionalPrinterColumns": [{"name": "Made", "type": "string", "jsonPath": ".status.made"}]}}`
	return &sandbarv1alpha1.Template{
		ObjectMeta: metav1.ObjectMeta{Name: "thing"},
		Spec: sandbarv1alpha1.TemplateSpec{
			Graph: runtime.RawExtension{Raw: []byte(graph)},
			DataPlane: sandbarv1alpha1.DataPlane{
				TokenSecretRef: "status.secretRef",
				Endpoints: map[string]sandbarv1alpha1.Endpoint{
					"log": {ServiceRef: "status.parts.api.ref", Port: "a", Methods: []string{"GET"}},
				},
			},
		},
	}
}

// madeByKro is the CRD that kro makes of it.
func madeByKro(t *testing.T, p *plan) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	str := apiextensionsv1.JSONSchemaProps{Type: "string"}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	ref := object(map[string]apiextensionsv1.JSONSchemaProps{"name": str, "namespace": str})
	status := object(map[string]apiextensionsv1.JSONSchemaProps{
		"secretRef": ref, "made": str,
		"parts": object(map[string]apiextensionsv1.JSONSchemaProps{
			"api": object(map[string]apiextensionsv1.JSONSchemaProps{"ref": ref}),
			"web": object(map[string]apiextensionsv1.JSONSchemaProps{"url": str}),
		}),
	})
	return crd.SynthesizeCRD("sandbar.dev", "v1alpha1", "Thing", *p.spec, status, true, apiextensionsv1.NamespaceScoped, &krov1alpha1.Schema{
		Categories: p.schema.Categories,
	})
}

func build(t *testing.T, specFields string) (name string, labels map[string]string, version map[string]any, root *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	tmpl := plainTemplate(t, specFields)
	p, err := newPlan(tmpl)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := buildSchema(tmpl, p, madeByKro(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if len(schema.Spec.Versions) != 1 {
		t.Fatalf("%d versions, want 1", len(schema.Spec.Versions))
	}
	root, err = schema.Spec.Versions[0].GetSchema()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"v": schema.Spec.Versions[0], "categories": schema.Spec.Names.Categories})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		t.Fatal(err)
	}
	return schema.Name, schema.Labels, version, root
}

func TestTenantsSeeNoReferenceOfTheContract(t *testing.T) {
	_, _, _, root := build(t, `{"suspended": "boolean | default=false"}`)
	got := slices.Sorted(maps.Keys(root.Properties["status"].Properties))
	want := []string{"activity", "conditions", "createdBy", "dataPlane", "made", "observedGeneration", "parts", "phase", "start", "suspension"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status fields (-want +got):\n%s", diff)
	}
	parts := root.Properties["status"].Properties["parts"].Properties
	if diff := cmp.Diff([]string{"web"}, slices.Sorted(maps.Keys(parts))); diff != "" {
		t.Errorf("status.parts: an object around a private field goes with it (-want +got):\n%s", diff)
	}
}

func TestAnObjectWithoutASpecIsNotAdmittedBare(t *testing.T) {
	_, _, _, root := build(t, `{"suspended": "boolean | default=false", "must": "string | required=true"}`)
	if diff := cmp.Diff([]string{"spec"}, root.Required); diff != "" {
		t.Errorf("with a required field, spec is required (-want +got):\n%s", diff)
	}
	_, _, _, root = build(t, `{"suspended": "boolean | default=false"}`)
	if d := root.Properties["spec"].Default; len(root.Required) > 0 || d == nil || string(d.Raw) != "{}" {
		t.Errorf("without one, spec has a default; required = %v, default = %v", root.Required, d)
	}
}

func TestANameThatIsNoLabelIsRefused(t *testing.T) {
	named := func(length int) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": strings.Repeat("a", length)}, "spec": map[string]any{}}
	}
	if got := check(t, `"a": "string"`, named(63), nil); got != "" {
		t.Errorf("a name as long as a label: %s", got)
	}
	if got := check(t, `"a": "string"`, named(64), nil); !strings.Contains(got, "metadata.name must be at most 63 characters long") {
		t.Errorf("a longer name is answered with %q", got)
	}
	if got := check(t, `"a": "string"`, named(64), named(64)); got != "" {
		t.Errorf("changing an object from before the rule: %s", got)
	}
}

func TestARefusalNamesTheRule(t *testing.T) {
	for fields, value := range map[string]any{
		`"a": "integer | validation=\"self != 7070\""`:                  int64(7070),
		`"a": {"b": "integer | validation=\"self != 7070\""}`:           map[string]any{"b": int64(7070)},
		`"a": "[]integer | validation=\"!self.exists(x, x\n== 7070)\""`: []any{int64(7070)},
	} {
		got := check(t, fields, map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"a": value}}, nil)
		if !strings.Contains(got, "must satisfy ") || !strings.Contains(got, "== 7070") && !strings.Contains(got, "!= 7070") {
			t.Errorf("%s: answered with %q", fields, got)
		}
	}
}

func TestASchemaIsNamedByItsContent(t *testing.T) {
	name, labels, version, _ := build(t, `{"suspended": "boolean | default=false"}`)
	again, _, _, _ := build(t, `{"suspended": "boolean | default=false"}`)
	other, _, _, _ := build(t, `{"suspended": "boolean | default=false", "a": "string"}`)
	if name != again || name == other || !strings.HasSuffix(name, ".things.sandbar.dev") || len(name) != len("v00000000.things.sandbar.dev") {
		t.Errorf("names %s, %s, %s: want the first two alike, the third not, and v<8 hex>.things.sandbar.dev", name, again, other)
	}
	if labels[placement.LabelTemplate] != "thing" {
		t.Errorf("labels = %v, want the Template's name", labels)
	}
	var columns []string
	for _, c := range version["v"].(map[string]any)["additionalPrinterColumns"].([]any) {
		columns = append(columns, c.(map[string]any)["name"].(string))
	}
	if diff := cmp.Diff([]string{"State", "Ready", "Idle", "Expires", "Age", "Reason", "URL", "Made"}, columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"things", "sandbar"}, version["categories"]); diff != "" {
		t.Errorf("categories (-want +got):\n%s", diff)
	}
}

// The schema of InstanceStatus is written by hand.
func TestTheStatusSchemaHasTheFieldsOfInstanceStatus(t *testing.T) {
	compareFields(t, "status", reflect.TypeFor[sandbarv1alpha1.InstanceStatus](), instanceStatusProperties())
}

func compareFields(t *testing.T, path string, typ reflect.Type, properties map[string]apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	var fields []string
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, name)
		elem := field.Type
		property := properties[name]
		for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
			if elem.Kind() == reflect.Slice && property.Items != nil {
				property = *property.Items.Schema
			}
			elem = elem.Elem()
		}
		if elem.Kind() == reflect.Struct && elem != reflect.TypeFor[metav1.Time]() && elem != reflect.TypeFor[metav1.MicroTime]() && elem != reflect.TypeFor[metav1.Duration]() {
			compareFields(t, path+"."+name, elem, property.Properties)
		}
	}
	slices.Sort(fields)
	if diff := cmp.Diff(fields, slices.Sorted(maps.Keys(properties))); diff != "" {
		t.Errorf("%s (-type +schema):\n%s", path, diff)
	}
}

// kro writes ids, with the hash of their revision, into labels.
func TestIDsLeaveRoomForTheirRevision(t *testing.T) {
	for length, ok := range map[int]bool{revision.MaxID: true, revision.MaxID + 1: false} {
		tmpl := plainTemplate(t, `{"suspended": "boolean | default=false"}`)
		id := strings.Repeat("a", length)
		raw := strings.TrimSuffix(string(tmpl.Spec.Graph.Raw), "}") + `, "resources": [{"id": "` + id + `", "template": {"apiVersion": "v1", "kind": "Service"}}]}`
		tmpl.Spec.Graph.Raw = []byte(raw)
		if _, err := newPlan(tmpl); (err == nil) != ok || (!ok && !strings.Contains(err.Error(), "spec.graph.resources[0].id")) {
			t.Errorf("an id of %d characters: %v", length, err)
		}
	}
}
