// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/crds"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

var statedDefault = regexp.MustCompile(`Defaults\s+to ([0-9]+)`)

// The generated schema of spec.limits has exactly the limits of the code, states their defaults, and
// has bounds that admit them.
func TestTheSchemaOfLimitsHasTheCodesNumbers(t *testing.T) {
	var limits Limits
	limits.SetDefaults()
	all := limits.ByName()
	all["instancesPerWorkspace"] = sandbarv1alpha1.DefaultInstancesPerWorkspace
	all["placements"] = sandbarv1alpha1.DefaultPlacements
	all["setReplicas"] = sandbarv1alpha1.DefaultSetReplicas
	stated := map[string]float64{}
	fields := schemaOfSpec(t).Properties["limits"].Properties
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field := fields[name]
		if match := statedDefault.FindStringSubmatch(field.Description); match != nil {
			stated[name], _ = strconv.ParseFloat(match[1], 64)
		}
		if field.Minimum == nil || field.Maximum == nil {
			t.Errorf("spec.limits.%s has no bound on one of its sides", name)
			continue
		}
		if number := all[name]; number < *field.Minimum || number > *field.Maximum {
			t.Errorf("the default of spec.limits.%s is %v, which its bounds refuse: %v to %v", name, number, *field.Minimum, *field.Maximum)
		}
		if *field.Minimum < 0 {
			t.Errorf("spec.limits.%s may be %v", name, *field.Minimum)
		}
	}
	if diff := cmp.Diff(all, stated); diff != "" {
		t.Errorf("the schema of spec.limits (-code +schema):\n%s", diff)
	}
}

func schemaOfSpec(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	data, err := crds.Files.ReadFile("sandbar.dev_infrastructureproviders.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

func TestTheDocumentHasTheBoundsOfAPreviewsSession(t *testing.T) {
	field := schemaOfSpec(t).Properties["dataPlane"].Properties["previewSessionSeconds"]
	match := statedDefault.FindStringSubmatch(field.Description)
	if match == nil || field.Minimum == nil || field.Maximum == nil {
		t.Fatalf("the field has no default or no bounds: %+v", field)
	}
	doc, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	row := fmt.Sprintf("`spec.dataPlane.previewSessionSeconds` (%s; %.0f to %.0f)", match[1], *field.Minimum, *field.Maximum)
	if !strings.Contains(string(doc), row) {
		t.Errorf("docs/limits.md does not say %q", row)
	}
}
