// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
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
			got, ok := kindOf(template, placement.Names{})
			if ok != test.want || (ok && got != fixture.Thing) {
				t.Errorf("kindOf = %v, %v", got, ok)
			}
		})
	}
}

// Tenants have one kind with every provider, and kro one of each provider.
func TestAKindIsComposedInTheProvidersOwnGroup(t *testing.T) {
	blue, err := placement.NamesOf("blue")
	if err != nil {
		t.Fatal(err)
	}
	template := &sandbarv1alpha1.Template{Status: sandbarv1alpha1.TemplateStatus{
		Kind: "Thing", Group: "sandbar.dev", Version: "v1alpha1", Resource: "things", SchemaName: "v1.things.sandbar.dev",
	}}
	for group, names := range map[string]placement.Names{"sandbar.dev": {}, "blue.sandbar.dev": blue} {
		kind, ok := kindOf(template, names)
		if !ok || kind.GVK.Group != "sandbar.dev" || kind.Composed().GVK.Group != group || kind.Composed().GVR().Resource != "things" {
			t.Errorf("tenants have %v, and kro %v, want the group %s", kind.GVK, kind.Composed().GVK, group)
		}
	}
}

func TestOnlyAChangeOfTheSettingsWakesTheInstances(t *testing.T) {
	a := fixture.NewSettings()
	for name, test := range map[string]struct {
		change func(*scope.Settings)
		equal  bool
	}{
		"the same":            {change: func(*scope.Settings) {}, equal: true},
		"another contract":    {change: func(s *scope.Settings) { s.DataPlane.TokenSecretRef = "" }},
		"another isolation":   {change: func(s *scope.Settings) { s.Infrastructure.Isolation.RuntimeClassName = "gvisor" }},
		"no longer set up":    {change: func(s *scope.Settings) { s.Infrastructure = nil }},
		"another workspace":   {change: func(s *scope.Settings) { s.Provider = "another" }},
		"a conversion":        {change: func(s *scope.Settings) { s.Conversions = ownersConverted(t) }},
		"since another time":  {change: func(s *scope.Settings) { s.Since = time.Now() }, equal: true},
		"nil and empty lists": {change: func(s *scope.Settings) { s.Infrastructure.Isolation.ProviderCIDRs = []string{} }, equal: true},
	} {
		b := fixture.NewSettings()
		test.change(&b)
		if got := a.Equal(b); got != test.equal {
			t.Errorf("%s: equal is %v", name, got)
		}
	}
}

// What the Template asks for is in force once kro serves its schema, which its status says.
func TestTheConversionsInForceAreThoseOfTheStatus(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := sandbarv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	k := &Kinds{client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	template := &sandbarv1alpha1.Template{}
	template.Spec.Conversions = []sandbarv1alpha1.Conversion{{Field: "owner", Expression: "'spec'"}}
	settings, err := k.settingsOf(t.Context(), template)
	if err != nil || settings.Conversions != nil {
		t.Fatalf("before the status has them: %v, %v", settings.Conversions, err)
	}
	template.Status.Conversions = []sandbarv1alpha1.Conversion{{Field: "owner", Expression: "'status'"}}
	if settings, err = k.settingsOf(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	if converted, _, _ := settings.Conversions.Of(map[string]any{"owner": "x"}); converted["owner"] != "status" {
		t.Errorf("the owner becomes %v", converted["owner"])
	}
}
