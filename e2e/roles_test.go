// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/install"
)

// TestARoleForViewersIsEnoughForTheCommandLine: a person with the ready-made role and access to the workspace, and
// nothing else, trusts the data plane that the binding names, and reads.
func TestARoleForViewersIsEnoughForTheCommandLine(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	tn.runner("web").waitReady()
	raw, err := install.TenantRole("viewer")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(raw, role); err != nil {
		t.Fatal(err)
	}
	tn.admit(tn.role(role.Name, role.Rules...), "carol")
	carol := *tn
	carol.user, carol.token = "carol", world.Stack.Token("carol")
	s := newTerminal(t, &carol)
	s.must("trust", "--yes")
	if list := s.must("templates"); !strings.Contains(list, "sandbox-runner") {
		t.Errorf("the catalogue is\n%s", list)
	}
	s.must("logs", "web")
	if text := s.must("describe", "sandboxrunner", "web"); strings.Contains(text, "forbidden") || !strings.Contains(text, "Events:") {
		t.Errorf("the description is\n%s", text)
	}
	if code, _, notes := s.run("restart", "web"); code != 1 || !strings.Contains(notes, "access denied") {
		t.Errorf("restarting it ends with %d, %s", code, notes)
	}
}
