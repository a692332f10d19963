// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func newWhoAmICommand(s *target) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show the user that your workspace knows you as, and which workspace and namespace are meant",
		Long: `Show the user and the groups that your workspace knows you as, and the workspace and the namespace that the
other commands mean. -o json prints the server's answer, a SelfSubjectReview.`,
		Args: named(),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.whoAmI(cmd, &o) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (s *target) whoAmI(cmd *cobra.Command, o *output) error {
	p, err := o.writePrinter()
	if err != nil {
		return err
	}
	c, namespace, err := s.objects(cmd)
	if err != nil {
		return err
	}
	answer, user, err := c.WhoAmI(cmd.Context())
	if err != nil {
		return err
	}
	if p.objectPrinter != nil {
		return p.print(cmd.OutOrStdout(), showing{items: []object.Item{{Unstructured: answer}}, one: true})
	}
	cfg, _, err := s.workspace()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	lines := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(lines, "User:\t%s\n", termsafe.Line(user.Username))
	fmt.Fprintf(lines, "Groups:\t%s\n", cmp.Or(termsafe.Line(strings.Join(user.Groups, ", ")), none))
	fmt.Fprintf(lines, "Workspace:\t%s\n", strings.TrimPrefix(placeOf(cfg.Host), "the workspace "))
	fmt.Fprintf(lines, "Namespace:\t%s\n", termsafe.Line(namespace))
	fmt.Fprintf(lines, "Credential:\t%s\n", cmp.Or(termsafe.Line(s.credential()), none))
	_ = lines.Flush() // into memory
	if _, err := cmd.OutOrStdout().Write(text.Bytes()); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
