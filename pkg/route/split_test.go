// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Of any rules: all of them, in their order, in HTTPRoutes that hold them, and as few as that needs.
func TestASplitKeepsAllRulesInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	largest := 0
	for range 5000 {
		rules := make([]httpRule, 1+random.IntN(sandbarv1alpha1.MaxSandboxRouteRules))
		for i := range rules {
			rules[i].Matches = make([]sandbarv1alpha1.SandboxRouteMatch, 1+random.IntN(sandbarv1alpha1.MaxSandboxRouteMatches))
			rules[i].BackendRefs = []backendRef{{Name: strconv.Itoa(i)}}
		}
		parts := split(rules)
		largest = max(largest, len(parts))
		next, before := 0, 0
		for i, part := range parts {
			matches := 0
			for _, rule := range part {
				if rule.BackendRefs[0].Name != strconv.Itoa(next) {
					t.Fatalf("rule %s stands where rule %d should", rule.BackendRefs[0].Name, next)
				}
				matches += len(rule.Matches)
				next++
			}
			if len(part) == 0 || len(part) > 16 || matches > 128 {
				t.Fatalf("a part has %d rules with %d matches", len(part), matches)
			}
			if i > 0 && len(parts[i-1]) < 16 && before+len(part[0].Matches) <= 128 {
				t.Fatalf("a part with %d matches could have had the next rule, with %d", before, len(part[0].Matches))
			}
			before = matches
		}
		if next != len(rules) {
			t.Fatalf("%d rules of %d are left", next, len(rules))
		}
	}
	if largest < 3 {
		t.Errorf("no split has more than %d parts, so that the test shows little", largest)
	}
}

func TestNamesOfHTTPRoutes(t *testing.T) {
	longest := strings.Repeat("a", 125) + "." + strings.Repeat("b", 127)
	for _, name := range []string{"shop", "shop.v2", longest, longest[:252], longest[:251], longest[:250], strings.Repeat("a.", 126) + "a"} {
		seen := map[string]bool{}
		for i := range 5 {
			got := Name(name, i)
			if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
				t.Errorf("%s: %v", got, problems)
			}
			if seen[got] || i == 0 && got != name {
				t.Errorf("%d of %s is %s", i, name, got)
			}
			seen[got] = true
			if len(name) < 250 && i > 0 && got != fmt.Sprintf("%s-%d", name, i+1) {
				t.Errorf("%d of %s is %s", i, name, got)
			}
		}
	}
	if Name(longest, 1) == Name(longest[:252]+"c", 1) {
		t.Error("two long names have the same second HTTPRoute")
	}
}

// A grant without the name of a Service, or from another namespace, would open more than a route leads to.
func TestAGrantIsForOneServiceFromOnePlacement(t *testing.T) {
	services := []types.NamespacedName{{Namespace: "legacy", Name: "web"}, {Namespace: "shop", Name: strings.Repeat("a", 63)}}
	labels := map[string]string{"a": "b"}
	grants, err := Grants(testPlacement, services, labels)
	if err != nil || len(grants) != len(services) {
		t.Fatalf("%d grants, %v", len(grants), err)
	}
	for i, grant := range grants {
		want := fmt.Sprintf(`{"from":[{"group":"gateway.networking.k8s.io","kind":"HTTPRoute","namespace":%q}],"to":[{"group":"","kind":"Service","name":%q}]}`, testPlacement, services[i].Name)
		if got := asText(grant.Object["spec"].(map[string]any)); got != want {
			t.Errorf("the grant is %s, want %s", got, want)
		}
		if grant.GetNamespace() != services[i].Namespace || grant.GetName() != testPlacement+"-"+services[i].Name || grant.GetLabels()["a"] != "b" || grant.GetLabels()[placement.LabelManagedBy] != placement.ManagedBy {
			t.Errorf("the grant is %v", grant.Object["metadata"])
		}
	}
	if len(labels) != 1 {
		t.Errorf("the labels have changed: %v", labels)
	}
	for name, err := range map[string]error{
		"from another namespace": errOf(Grants("default", services, nil)),
		"to all Services":        errOf(Grants(testPlacement, []types.NamespacedName{{Namespace: "shop"}}, nil)),
		"to Kubernetes":          errOf(Grants(testPlacement, []types.NamespacedName{{Namespace: "kube-system", Name: "kube-dns"}}, nil)),
		"to another placement":   errOf(Grants(testPlacement, []types.NamespacedName{{Namespace: placement.ID{Origin: "a"}.Namespace(), Name: "web"}}, nil)),
	} {
		if err == nil {
			t.Errorf("a grant %s is made", name)
		}
	}
}

func errOf(_ any, err error) error { return err }

func TestAServiceIsGrantedOnce(t *testing.T) {
	spec := read(t, "{provider: gateway, "+testGateway+`, rules: [
		{name: a, backends: [{service: {name: web, namespace: shop, port: 80}}, {service: {name: web, namespace: shop, port: 81}}]},
		{name: b, backends: [{service: {name: web, namespace: legacy, port: 80}}, {service: {name: api, namespace: shop, port: 80}}]}]}`)
	want := []types.NamespacedName{{Namespace: "rt-legacy", Name: "web"}, {Namespace: "rt-shop", Name: "api"}, {Namespace: "rt-shop", Name: "web"}}
	if got := render(t, "shop", spec).Granted; !slices.Equal(got, want) {
		t.Errorf("granted are %v, want %v", got, want)
	}
}
