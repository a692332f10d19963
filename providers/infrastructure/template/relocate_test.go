// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/templates"
)

// Two providers on one runtime cluster have the built-in Templates both: what kro gets of one says nothing that is the
// other's.
func TestAGraphIsOfItsProvidersOwnGroupAndReadsItsOwnValues(t *testing.T) {
	blue, err := placement.NamesOf("blue")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range templates.Names() {
		t.Run(name, func(t *testing.T) {
			tmpl, err := templates.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := newPlan(tmpl)
			if err != nil {
				t.Fatal(err)
			}
			before, err := json.Marshal(p.graph)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p.graph, relocated(placement.Names{}, p.graph)); diff != "" {
				t.Errorf("the graph of a provider without a name is changed (-want +got):\n%s", diff)
			}
			graph := relocated(blue, p.graph)
			got, err := json.Marshal(graph)
			if err != nil {
				t.Fatal(err)
			}
			if group := graph["schema"].(map[string]any)["group"]; group != "blue.sandbar.dev" {
				t.Errorf("the group is %v", group)
			}
			if strings.Contains(string(got), `"`+placement.SystemNamespace+`"`) {
				t.Errorf("the graph reads in the namespace of the provider without a name:\n%s", got)
			}
			if want := strings.Count(string(before), `"`+placement.SystemNamespace+`"`); strings.Count(string(got), `"sandbar-blue-system"`) != want {
				t.Errorf("%d references are not all moved:\n%s", want, got)
			}
			if after, _ := json.Marshal(p.graph); string(after) != string(before) {
				t.Error("the Template's own graph was changed")
			}
			desired, err := desiredGraph(blue, name, graph)
			if err != nil || desired.GetName() != "blue-"+name || blue.TemplateOf(desired) != name {
				t.Errorf("the ResourceGraphDefinition is %s with labels %v: %v", desired.GetName(), desired.GetLabels(), err)
			}
		})
	}
}
