// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/sandbar-dev/sandbar/install"
)

func TestRolesPrintsWhatATenantCanApply(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"all of them":       {nil, "sandbar-operator sandbar-previewer sandbar-viewer"},
		"one":               {[]string{"viewer"}, "sandbar-viewer"},
		"in the order told": {[]string{"viewer", "operator"}, "sandbar-viewer sandbar-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newRootCommand()
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetArgs(append([]string{"roles"}, c.args...))
			if err := cmd.Execute(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for decoder := yaml.NewYAMLOrJSONDecoder(&out, 4096); ; {
				var role rbacv1.ClusterRole
				if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				if role.Kind != "ClusterRole" || len(role.Rules) == 0 {
					t.Errorf("%s is no ClusterRole with rules", role.Name)
				}
				got = append(got, role.Name)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
	cmd := newRootCommand()
	cmd.SetArgs([]string{"roles", "../rbac/provider"})
	if err := cmd.Execute(); !errors.Is(err, install.ErrNoRole) {
		t.Errorf("got %v", err)
	}
}
