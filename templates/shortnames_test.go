// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/apis/crds"
)

// A workspace has the kinds of the built-in Templates and the built-in kinds at once: with a short name of two kinds, a command
// is about either.
func TestNoTwoKindsOfATenantHaveAShortNameInCommon(t *testing.T) {
	of := map[string]string{}
	add := func(kind string, names []string) {
		for _, name := range names {
			if other, taken := of[name]; taken {
				t.Errorf("%s and %s have the short name %s", other, kind, name)
			}
			of[name] = kind
		}
	}
	for _, kind := range builtin.Kinds {
		data, err := crds.All.ReadFile(kind.Definition())
		if err != nil {
			t.Fatal(err)
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &definition); err != nil {
			t.Fatal(err)
		}
		add(kind.Name, definition.Spec.Names.ShortNames)
	}
	for _, name := range Names() {
		var graph struct {
			Schema struct {
				Kind       string   `json:"kind"`
				ShortNames []string `json:"shortNames"`
			} `json:"schema"`
		}
		if err := json.Unmarshal(get(t, name).Spec.Graph.Raw, &graph); err != nil {
			t.Fatal(err)
		}
		add(graph.Schema.Kind, graph.Schema.ShortNames)
	}
	if len(of) < len(builtin.Kinds) || of["sbr"] != "SandboxRunner" {
		t.Errorf("the short names are %v", of)
	}
}
