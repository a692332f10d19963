// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/crds"
)

// addressSchema is that of spec.dataPlane as the API server of the provider workspace has it.
func addressSchema(t *testing.T) *structuralschema.Structural {
	t.Helper()
	raw, err := crds.Files.ReadFile("sandbar.dev_infrastructureproviders.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, crd); err != nil {
		t.Fatal(err)
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["dataPlane"]
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return structural
}

// What clients refuse cannot be written, by init or into the object. The client's test of the same table is
// TestTheAddressesOfDataPlanesThatClientsRefuse.
func TestAnAddressThatClientsRefuseCannotBeWritten(t *testing.T) {
	text, err := os.ReadFile("../apis/v1alpha1/testdata/data-plane-urls.json")
	if err != nil {
		t.Fatal(err)
	}
	var table []struct {
		Name, URL string
		Refused   []string
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	schema := addressSchema(t)
	rules := cel.NewValidator(schema, false, celconfig.PerCallLimit)
	for _, row := range table {
		t.Run(row.Name, func(t *testing.T) {
			problems, _ := rules.Validate(t.Context(), nil, schema, map[string]any{"url": row.URL}, nil, celconfig.RuntimeCELCostBudget)
			if (len(problems) > 0) != slices.Contains(row.Refused, "crd") {
				t.Errorf("the API server says %v", problems)
			}
			for _, problem := range problems {
				said := problem.Error()
				if problem.Field != "url" || !strings.Contains(said, "must be https://HOST[:PORT][/PATH]") && !strings.Contains(said, "serve the data plane under another path") {
					t.Errorf("the API server says %s", said)
				}
			}
			if err := CheckDataPlaneURL(row.URL); (err != nil) != slices.Contains(row.Refused, "init") {
				t.Errorf("init says %v", err)
			}
			if slices.Contains(row.Refused, "client") && !slices.Contains(row.Refused, "crd") {
				t.Error("clients refuse it, and it can be written")
			}
		})
	}
}

// Two lists that part would leave a hole, or have init refuse what can be.
func TestTheRulesOfTheObjectAreThoseOfInit(t *testing.T) {
	properties := addressSchema(t).Properties
	var rules []string
	for _, rule := range properties["url"].XValidations {
		rules = append(rules, rule.Rule)
	}
	want := []string{"self.matches(r'" + dataPlaneURL.String() + "')", "!self.matches(r'" + oddSegment.String() + "')"}
	if !slices.Equal(rules, want) {
		t.Errorf("the object has the rules\n%s\nand init\n%s", strings.Join(rules, "\n"), strings.Join(want, "\n"))
	}
}
