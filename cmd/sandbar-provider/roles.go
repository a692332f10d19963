// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/install"
)

func newRolesCommand() *cobra.Command {
	return &cobra.Command{
		Use:       fmt.Sprintf("roles [%s]...", strings.Join(install.TenantRoles(), "|")),
		Short:     "Print ready-made ClusterRoles for a tenant to apply in its workspace",
		Example:   "  sandbar-provider roles viewer operator | kubectl apply -f -",
		ValidArgs: install.TenantRoles(),
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names) == 0 {
				names = install.TenantRoles()
			}
			var documents []string
			for _, name := range names {
				role, err := install.TenantRole(name)
				if err != nil {
					return err
				}
				documents = append(documents, string(role))
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), strings.Join(documents, "---\n"))
			return err
		},
	}
}
