// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenantkind

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sandbar-dev/sandbar/apis/builtin"
)

// throwaway is a kind that exists nowhere but in this test.
var throwaway = Kind{Kind: builtin.Kind{Name: "Throwaway", Resource: "throwaways", PodField: "box", Subresources: []string{"scale"}, Calls: []string{"throw"}, Reads: []string{"weigh"}, Shown: []string{"watch"}}}

// definition is what the generator would make of its type.
const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: throwaways.sandbar.dev}
spec:
  group: sandbar.dev
  names: {kind: Throwaway, listKind: ThrowawayList, plural: throwaways, singular: throwaway}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                box: {type: object, description: The pod., x-kubernetes-preserve-unknown-fields: true}
                template: {type: object, description: Not a pod.}
`

func TestAKindIsOfferedByItsEntryInTheRegister(t *testing.T) {
	schema, err := throwaway.schemaOf([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	if schema.Spec.Names.Kind != "Throwaway" || schema.Spec.Group != "sandbar.dev" {
		t.Errorf("the schema is of %s %s", schema.Spec.Group, schema.Spec.Names.Kind)
	}
	root, err := schema.Spec.Versions[0].GetSchema()
	if err != nil {
		t.Fatal(err)
	}
	spec := root.Properties["spec"]
	if box := spec.Properties["box"]; box.Description != "The pod." || len(box.Properties["spec"].Properties["containers"].Items.Schema.Properties) == 0 {
		t.Errorf("spec.box is not a pod: %v", box)
	}
	if other := spec.Properties["template"]; len(other.Properties) > 0 {
		t.Errorf("spec.template has become a pod, which the register does not say: %v", other)
	}

	got := map[string][]string{}
	for _, rule := range throwaway.Rules() {
		for _, resource := range rule.Resources {
			got[resource] = rule.Verbs
		}
	}
	for resource, verbs := range map[string][]string{"throwaways": {rbacv1.VerbAll}, "throwaways/status": {"get"}, "throwaways/scale": {rbacv1.VerbAll}, "throwaways/throw": {"create"}, "throwaways/weigh": {"get"}, "throwaways/watch": {"get"}} {
		if !slices.Equal(got[resource], verbs) {
			t.Errorf("tenants may %v %s at most, want %v", got[resource], resource, verbs)
		}
	}
	if name := throwaway.controllerName(); name != "throwaway" {
		t.Errorf("its controller is called %q", name)
	}
}

func TestARegisterThatNamesAFieldWhichThereIsNotIsRefused(t *testing.T) {
	kind := throwaway
	kind.PodField = "bxo"
	if _, err := kind.schemaOf([]byte(definition)); err == nil || !strings.Contains(err.Error(), "spec.bxo") || !strings.Contains(err.Error(), "apis/builtin") {
		t.Errorf("it said %v", err)
	}
	if _, err := throwaway.Schema(); err == nil || !strings.Contains(err.Error(), "sandbar.dev_throwaways.yaml") {
		t.Errorf("without a definition it said %v", err)
	}
}

func TestEachBuiltInKindHasASchema(t *testing.T) {
	for _, kind := range builtin.Kinds {
		if _, err := (Kind{Kind: kind}).Schema(); err != nil {
			t.Error(err)
		}
	}
}
