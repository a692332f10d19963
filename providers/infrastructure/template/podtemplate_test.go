// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// hooked is what tenants get of a Template whose fields Sandbar fills in; kro makes its kind of the graph alone.
func hooked(t *testing.T, tmpl *sandbarv1alpha1.Template) (*plan, *kcpapisv1alpha1.APIResourceSchema) {
	t.Helper()
	p, err := newPlan(tmpl)
	if err != nil {
		t.Fatal(err)
	}
	plain := *tmpl
	plain.Spec.PodTemplate, plain.Spec.Clones, plain.Spec.Compound = nil, nil, nil
	ofKro, err := newPlan(&plain)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := buildSchema(tmpl, p, madeByKro(t, ofKro))
	if err != nil {
		t.Fatal(err)
	}
	return p, schema
}

func TestTenantsSeeTheFieldForTheirPodTemplateAndNotTheGraphs(t *testing.T) {
	tmpl := plainTemplate(t, `{"suspended": "boolean | default=false", "pod": "object | required=true"}`)
	tmpl.Spec.PodTemplate = &sandbarv1alpha1.PodTemplateFields{From: "template", To: "pod"}
	p, schema := hooked(t, tmpl)
	var wide []string
	for _, column := range schema.Spec.Versions[0].AdditionalPrinterColumns {
		if column.Priority > 0 {
			wide = append(wide, column.Name)
		}
	}
	if diff := cmp.Diff([]string{"Reason", "URL", "Start", "Set", "Why cold"}, wide); diff != "" {
		t.Errorf("wide columns (-want +got):\n%s", diff)
	}
	root, err := schema.Spec.Versions[0].GetSchema()
	if err != nil {
		t.Fatal(err)
	}
	spec := root.Properties["spec"]
	if _, there := spec.Properties["pod"]; there {
		t.Error("tenants see the field that the graph reads: what they write there is checked by nobody")
	}
	if diff := cmp.Diff([]string{"template"}, spec.Required); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	pod := spec.Properties["template"].Properties["podTemplate"].Properties["spec"]
	if pod.Properties["containers"].Type != "array" || len(pod.XValidations) == 0 {
		t.Error("the pod template has no schema")
	}
	// What is compared with the schema that tenants have is what they would get.
	offered := spec
	if changes := incompatibilities(&offered, withLifecycle(p.spec)); len(changes) > 0 {
		t.Errorf("a Template is not compatible with itself: %v", changes)
	}
}
