// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"io/fs"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sandbar-dev/sandbar/apis/crds"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestEachBuiltInKindHasADefinitionAndAType(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := sandbarv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range Kinds {
		raw, err := crds.All.ReadFile(kind.Definition())
		if err != nil {
			t.Errorf("%s: %v; run make generate", kind.Name, err)
		}
		if !strings.Contains(string(raw), "kind: "+kind.Name+"\n") {
			t.Errorf("%s is not of kind %s", kind.Definition(), kind.Name)
		}
		if !scheme.Recognizes(kind.GVK()) || !scheme.Recognizes(sandbarv1alpha1.GroupVersion.WithKind(kind.Name+"List")) {
			t.Errorf("%s or its list is not in the scheme; register both beside the type", kind.Name)
		}
		if len(kind.Immutable) > 0 && kind.ImmutableMessage == "" {
			t.Errorf("%s has fields that do not change and no words for a tenant who changes one", kind.Name)
		}
	}
}

// A definition that is in no register is neither installed nor offered, and nobody would notice.
func TestEachDefinitionIsOfTheProviderOrOfABuiltInKind(t *testing.T) {
	known := map[string]bool{}
	for _, kind := range Kinds {
		known[kind.Definition()] = true
	}
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if known[file] {
			t.Errorf("%s is installed for the provider and offered to tenants", file)
		}
		known[file] = true
	}
	all, err := fs.Glob(crds.All, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if !known[file] {
			t.Errorf("%s belongs to no kind: add it to Kinds of apis/builtin, or to Files of package crds", file)
		}
	}
}

func TestAKindThatIsNotRegisteredIsNotFound(t *testing.T) {
	if kind, ok := Lookup("Sandbox"); ok {
		t.Errorf("found %v, which a Template defines", kind)
	}
	defer func() {
		if said := recover(); said == nil || !strings.Contains(said.(string), "apis/builtin") {
			t.Errorf("it said %v", said)
		}
	}()
	Of("Sandbox")
}
