// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestAKindIsFollowedFromItsExportOn(t *testing.T) {
	exported := []metav1.Condition{{Type: sandbarv1alpha1.TemplateExported, Status: metav1.ConditionTrue}}
	complete := sandbarv1alpha1.TemplateStatus{
		Kind: "Thing", Group: "sandbar.dev", Version: "v1alpha1", Resource: "things", Conditions: exported,
	}
	for name, test := range map[string]struct {
		change func(*sandbarv1alpha1.TemplateStatus)
		want   bool
	}{
		"exported":                        {change: func(*sandbarv1alpha1.TemplateStatus) {}, want: true},
		"no longer exported, schema kept": {change: func(s *sandbarv1alpha1.TemplateStatus) { s.Conditions, s.SchemaName = nil, "v1.things.sandbar.dev" }, want: true},
		"never exported":                  {change: func(s *sandbarv1alpha1.TemplateStatus) { s.Conditions = nil }},
		"without a resource":              {change: func(s *sandbarv1alpha1.TemplateStatus) { s.Resource = "" }},
		"without a kind":                  {change: func(s *sandbarv1alpha1.TemplateStatus) { s.Kind = "" }},
		"without a group":                 {change: func(s *sandbarv1alpha1.TemplateStatus) { s.Group = "" }},
		"without a version":               {change: func(s *sandbarv1alpha1.TemplateStatus) { s.Version = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			template := &sandbarv1alpha1.Template{Status: *complete.DeepCopy()}
			template.Name = "thing"
			test.change(&template.Status)
			got, ok := kindOf(template)
			if ok != test.want || (ok && got != thing) {
				t.Errorf("kindOf = %v, %v", got, ok)
			}
		})
	}
}

func TestTheSliceNamesTheEndpointsOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kcpapisv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	slice := &kcpapisv1alpha1.APIExportEndpointSlice{}
	slice.Name = "sandbar.dev"
	for _, url := range []string{"https://b", "https://a", "", "https://b"} {
		slice.Status.APIExportEndpoints = append(slice.Status.APIExportEndpoints, kcpapisv1alpha1.APIExportEndpoint{URL: url})
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(slice).Build()
	for name, want := range map[string][]string{"sandbar.dev": {"https://a", "https://b"}, "missing": nil} {
		got, err := endpointURLs(t.Context(), reader, name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOnlyAChangeOfTheSettingsWakesTheInstances(t *testing.T) {
	a := newSettings()
	for name, test := range map[string]struct {
		change func(*settings)
		equal  bool
	}{
		"the same":            {change: func(*settings) {}, equal: true},
		"another contract":    {change: func(s *settings) { s.dataPlane.TokenSecretRef = "" }},
		"another isolation":   {change: func(s *settings) { s.infrastructure.Isolation.RuntimeClassName = "gvisor" }},
		"no longer set up":    {change: func(s *settings) { s.infrastructure = nil }},
		"another workspace":   {change: func(s *settings) { s.provider = "another" }},
		"nil and empty lists": {change: func(s *settings) { s.infrastructure.Isolation.ProviderCIDRs = []string{} }, equal: true},
	} {
		b := newSettings()
		test.change(&b)
		if got := a.equal(b); got != test.equal {
			t.Errorf("%s: equal is %v", name, got)
		}
	}
}
