// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strings"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestAConversionIsOfAFieldThatMeansNothingToTheControllers(t *testing.T) {
	pods := &sandbarv1alpha1.PodTemplateFields{From: "template", To: "pod"}
	for name, tc := range map[string]struct {
		fields []string
		pods   *sandbarv1alpha1.PodTemplateFields
		want   []string
	}{
		"none":                                {},
		"fields of the graph":                 {fields: []string{"owner", "tags", "gone"}, pods: pods},
		"two of one field":                    {fields: []string{"owner", "tags", "owner"}, want: []string{`spec.conversions[2].field: "owner" has a conversion already`}},
		"fields of every kind":                {fields: []string{"suspended", "lifecycle", "mode", "sandbarRevision"}, want: []string{`"suspended" is`, `"lifecycle" is`, `"mode" is`, `"sandbarRevision" is`}},
		"fields of kinds with a pod template": {fields: []string{"template", "pod", "prewarm", "resize", "startTimeout", "env", "envFrom"}, pods: pods, want: []string{`"template" is`, `"pod" is`, `"prewarm" is`, `"resize" is`, `"startTimeout" is`, `"env" is`, `"envFrom" is`}},
		"and of those without":                {fields: []string{"template", "pod", "prewarm", "resize", "startTimeout", "env", "envFrom"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &sandbarv1alpha1.TemplateSpec{PodTemplate: tc.pods}
			for _, field := range tc.fields {
				spec.Conversions = append(spec.Conversions, sandbarv1alpha1.Conversion{Field: field, Expression: "self"})
			}
			problems := checkConversions(spec)
			if len(problems) != len(tc.want) {
				t.Fatalf("problems %v, want %q", problems, tc.want)
			}
			for i, problem := range problems {
				if !strings.Contains(fmt.Sprint(problem), tc.want[i]) {
					t.Errorf("problem %v, want %q", problem, tc.want[i])
				}
			}
		})
	}
}
