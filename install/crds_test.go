// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/crds"
)

// An API server refuses a definition whose rules might cost too much. That of Baselines read the field "as", which is a word of
// CEL and has to be written __as__: it was found, but not how long it can be.
func TestAnAPIServerTakesEveryDefinition(t *testing.T) {
	files, err := crds.All.ReadDir(".")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(file.Name(), func(t *testing.T) {
			raw, err := crds.All.ReadFile(file.Name())
			if err != nil {
				t.Fatal(err)
			}
			written, crd := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
			if err := yaml.UnmarshalStrict(raw, written); err != nil {
				t.Fatal(err)
			}
			apiextensionsv1.SetDefaults_CustomResourceDefinition(written)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&written.Spec)
			if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(written, crd, nil); err != nil {
				t.Fatal(err)
			}
			crd.Status.StoredVersions = []string{written.Spec.Versions[0].Name}
			for _, problem := range validation.ValidateCustomResourceDefinition(t.Context(), crd) {
				t.Error(problem)
			}
		})
	}
}
