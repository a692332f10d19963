// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/sandbar-dev/sandbar/apis/builtin"
)

// tenantRoles are ClusterRoles for tenants' workspaces. They are the tenants' own: nothing of ours
// applies them, because the provider has no rights there.
//
//go:embed tenant-roles/*.yaml
var tenantRoles embed.FS

// ErrNoRole means that there is no ready-made role of that name.
var ErrNoRole = errors.New("no such role")

// TenantRoles are the names of the ready-made roles, sorted.
func TenantRoles() []string {
	entries, err := tenantRoles.ReadDir("tenant-roles")
	if err != nil {
		panic(err) // it is part of the program
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	return names
}

// TenantRole returns the YAML of a ready-made role, for a tenant to apply in its workspace.
func TenantRole(name string) ([]byte, error) { return tenantRole(name, builtin.Kinds) }

// tenantRole is TenantRole for a register of built-in kinds.
func tenantRole(name string, kinds []builtin.Kind) ([]byte, error) {
	file := path.Join("tenant-roles", name+".yaml")
	raw, err := tenantRoles.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %q (there are: %s)", ErrNoRole, name, strings.Join(TenantRoles(), ", "))
	}
	return fill(file, raw, roleValues(kinds))
}
