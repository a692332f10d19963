// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package offertest checks the schemas that tenants are offered.
package offertest

import (
	"slices"
	"strings"
	"testing"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Undescribed lists the fields of a kind's spec, and its spec and status, of which kubectl explain would say nothing.
// The inside of a pod is left out: kubectl explain pod.spec has that, and its texts would make the schema five times as
// large.
func Undescribed(t *testing.T, schema *kcpapisv1alpha1.APIResourceSchema) []string {
	t.Helper()
	root, err := schema.Spec.Versions[0].GetSchema()
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	if root.Properties["status"].Description == "" {
		missing = append(missing, "status")
	}
	Walk("spec", root.Properties["spec"], &missing)
	slices.Sort(missing)
	return missing
}

// Walk adds the fields below a path that have no description.
func Walk(path string, field apiextensionsv1.JSONSchemaProps, missing *[]string) {
	if field.Description == "" {
		*missing = append(*missing, path)
	}
	if strings.HasSuffix(path, "emplate.spec") { // of a pod
		return
	}
	for name, property := range field.Properties {
		Walk(path+"."+name, property, missing)
	}
	if field.Items != nil && field.Items.Schema != nil {
		for name, property := range field.Items.Schema.Properties {
			Walk(path+"[]."+name, property, missing)
		}
	}
}
