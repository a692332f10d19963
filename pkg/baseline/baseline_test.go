// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestABaselineAdmitsTheWorkspacesThatItNamesAndNoOther(t *testing.T) {
	of := func(path string, recursive bool) []sandbarv1alpha1.BaselineWorkspace {
		return []sandbarv1alpha1.BaselineWorkspace{{Path: path, Recursive: recursive}}
	}
	for name, c := range map[string]struct {
		workspaces []sandbarv1alpha1.BaselineWorkspace
		path       string
		want       bool
	}{
		"no workspaces admit nobody":                    {nil, "root:acme", false},
		"the workspace itself":                          {of("root:acme", false), "root:acme", true},
		"the workspace itself, with those below":        {of("root:acme", true), "root:acme", true},
		"one below, without recursive":                  {of("root:acme", false), "root:acme:dev", false},
		"one below, with recursive":                     {of("root:acme", true), "root:acme:dev", true},
		"one far below, with recursive":                 {of("root:acme", true), "root:acme:dev:jane", true},
		"a stranger whose name begins alike":            {of("root:acme", true), "root:acme-corp", false},
		"one below a stranger whose name begins alike":  {of("root:acme", true), "root:acme-corp:dev", false},
		"the workspace above":                           {of("root:acme:dev", true), "root:acme", false},
		"all below root":                                {of("root", true), "root:users:a:b:jane", true},
		"root alone":                                    {of("root", false), "root:acme", false},
		"another letter case is another workspace":      {of("root:acme", true), "root:ACME", false},
		"a path that is not known":                      {of("root", true), "", false},
		"an empty path in the spec, of an edited CRD":   {of("", true), "root:acme", false},
		"an empty path in the spec and an unknown path": {of("", true), "", false},
		"a logical cluster's name is not below root":    {of("root", true), "2zk4y7q1x0", false},
		"the second of two":                             {append(of("root:a", false), of("root:b", true)...), "root:b:c", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Admits(&sandbarv1alpha1.BaselineSpec{Workspaces: c.workspaces}, c.path); got != c.want {
				t.Errorf("%q: %t, want %t", c.path, got, c.want)
			}
		})
	}
}

func TestNamespacesOfTheSystemAreReserved(t *testing.T) {
	blue, err := placement.NamesOf("blue")
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]bool{
		"kube-system": true, "kube-public": true, "kro-system": true, "sb-abcdefghijklmnopqrstuvwxyz": true, "sb-x": true,
		(placement.Names{}).SystemNamespace(): true, (placement.Names{}).NetworkCheckNamespace(): true,
		blue.SystemNamespace(): true, blue.NetworkCheckNamespace(): true,
		"storefront": false, "kubeflow": false, "sbom": false, "default": false, "my-kube-system": false,
	} {
		if got := Reserved(namespace); got != want {
			t.Errorf("%s: %t, want %t", namespace, got, want)
		}
	}
	if got := RoleName(placement.Names{}) + " " + RoleName(blue); got != "sandbar-baseline sandbar-blue-baseline" {
		t.Error(got)
	}
}
