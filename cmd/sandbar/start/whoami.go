// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// standpoint is what whoami prints: who acts, and where.
type standpoint struct {
	Context   string          `json:"context,omitempty"`
	Server    string          `json:"server"`
	Namespace string          `json:"namespace"`
	User      client.Identity `json:"user"`
}

func newWhoamiCommand(s *target) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show which user you are for kcp, and the workspace and namespace that commands use",
		Args:  cli.Named(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return &cli.UsageError{Err: fmt.Errorf("-o %q is not a format: leave it out, or use json", output)}
			}
			cfg, namespace, err := s.Workspace()
			if err != nil {
				return err
			}
			me, err := client.WhoAmI(cmd.Context(), cfg)
			if err != nil {
				return s.StartError(cmd.Context(), err)
			}
			at := standpoint{Context: s.ContextName(), Server: cfg.Host, Namespace: namespace, User: *me}
			if output == "json" {
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				if err := out.Encode(at); err != nil {
					return fmt.Errorf("writing: %w", err)
				}
			} else if err := printStandpoint(cmd, at); err != nil {
				return err
			}
			if me.Username == client.Anonymous {
				return fmt.Errorf("%s does not recognize your credential, or the kubeconfig has none: choose another --context, or ask the owner of the workspace for a credential", cli.PlaceOf(cfg.Host))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "format: json, or a table for people if empty")
	return cmd
}

func printStandpoint(cmd *cobra.Command, at standpoint) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
	server, workspace, ok := strings.Cut(at.Server, "/clusters/")
	lines := [][2]string{{"USER", at.User.Username}, {"GROUPS", strings.Join(at.User.Groups, ", ")}}
	if ok {
		lines = append(lines, [2]string{"WORKSPACE", strings.TrimRight(workspace, "/")})
	}
	lines = append(lines, [2]string{"NAMESPACE", at.Namespace}, [2]string{"SERVER", server}, [2]string{"CONTEXT", at.Context})
	for _, line := range lines {
		if line[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", line[0], termsafe.Line(line[1]))
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
