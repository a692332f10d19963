// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestTenantsSeeTheFieldsForTheirCopiesAndNotTheGraphs(t *testing.T) {
	tmpl := plainTemplate(t, `{"suspended": "boolean | default=false", "render": "[]object | required=true", "claims": "[]object | required=true"}`)
	tmpl.Spec.Clones = &sandbarv1alpha1.CloneFields{From: "components", To: "render", Claims: "claims"}
	p, schema := hooked(t, tmpl)
	root, err := schema.Spec.Versions[0].GetSchema()
	if err != nil {
		t.Fatal(err)
	}
	spec := root.Properties["spec"]
	for _, name := range []string{"render", "claims"} {
		if _, there := spec.Properties[name]; there {
			t.Errorf("tenants see the field %s that the graph reads: what they write there is checked by nobody", name)
		}
	}
	if diff := cmp.Diff([]string{"components"}, spec.Required); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	components := spec.Properties["components"]
	if components.MaxItems == nil || *components.MaxItems != sandbarv1alpha1.MaxSandboxGroupComponents || components.Items == nil || spec.Properties["baselineRef"].Type != "object" {
		t.Errorf("the components have no schema: %+v", components)
	}
	for _, name := range []string{"sandboxID", "components", "conditions"} {
		if _, there := root.Properties["status"].Properties[name]; !there {
			t.Errorf("the status has no %s", name)
		}
	}
	offered := spec
	if changes := incompatibilities(&offered, withLifecycle(p.spec)); len(changes) > 0 {
		t.Errorf("a Template is not compatible with itself: %v", changes)
	}
}
