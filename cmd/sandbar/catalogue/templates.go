// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func newTemplatesCommand(s *target) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "templates [NAME]",
		Short: "List the Templates that your workspace's provider offers, or show one",
		Long: `List the Templates that the provider of your workspace's binding offers: the kinds of instances that you can
create. With NAME, show what the Template is for, how to use it, and what its instances offer.

The provider's data plane answers, so it has to be trusted: sandbar trust. -o json prints one object for each.`,
		Args: cli.AtMost("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return s.templates(cmd, args, output) },
	}
	cli.AddOutputFlag(cmd, &output)
	return cmd
}

func (s *target) templates(cmd *cobra.Command, args []string, output string) error {
	asJSON, err := cli.JSONOutput(output)
	if err != nil {
		return err
	}
	w, err := s.Open()
	if err != nil {
		return err
	}
	all, err := w.Templates(cmd.Context())
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b client.Template) int { return strings.Compare(a.Name, b.Name) })
	if len(args) > 0 {
		var names []string
		for _, t := range all {
			names = append(names, t.Name)
		}
		at := slices.Index(names, args[0])
		if at < 0 {
			return fmt.Errorf("there is no Template %q; the provider offers %s", args[0], cmp.Or(termsafe.Line(strings.Join(names, ", ")), cli.None))
		}
		all = all[at : at+1]
	}
	var text bytes.Buffer
	switch {
	case asJSON:
		out := json.NewEncoder(&text)
		for _, t := range all {
			if err := out.Encode(t); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		return cli.WriteDocument(cmd.OutOrStdout(), text.Bytes())
	case len(args) > 0:
		describeTemplate(&text, all[0])
	case len(all) == 0:
		fmt.Fprintln(cmd.ErrOrStderr(), "The workspace has no binding to a provider that offers Templates: bring its kinds into it with sandbar bind.")
		return nil
	default:
		listTemplates(&text, all)
	}
	if _, err := cmd.OutOrStdout().Write(text.Bytes()); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func listTemplates(out *bytes.Buffer, all []client.Template) {
	lines := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(lines, "NAME\tKIND\tCATEGORY\tVERSION\tDESCRIPTION")
	for _, t := range all {
		fmt.Fprintf(lines, "%s\t%s\t%s\t%s\t%s\n", termsafe.Line(t.Name), termsafe.Line(t.InstanceKind),
			cmp.Or(termsafe.Line(t.Category), cli.None), termsafe.Line(t.Version), termsafe.Line(firstSentence(t.Description)))
	}
	_ = lines.Flush() // into memory
}

// firstSentence is what a table has room for.
func firstSentence(text string) string {
	sentence, _, more := strings.Cut(strings.Join(strings.Fields(text), " "), ". ")
	if more {
		sentence += "."
	}
	return sentence
}

func describeTemplate(out *bytes.Buffer, t client.Template) {
	fmt.Fprintf(out, "%s: %s, version %s\n", termsafe.Line(t.Name), termsafe.Line(cmp.Or(t.DisplayName, t.InstanceKind)), termsafe.Line(t.Version))
	fmt.Fprintf(out, "Kind:   %s (%s)\n", termsafe.Line(t.InstanceKind), termsafe.Line(t.InstanceAPIVersion))
	fmt.Fprintf(out, "Create: sandbar create %s NAME\n", termsafe.Line(strings.ToLower(t.InstanceKind)))
	fmt.Fprintf(out, "Verbs:  %s\n", cmp.Or(termsafe.Line(strings.Join(t.Verbs, ", ")), cli.None))
	if t.OffersPod {
		fmt.Fprintf(out, "Pod:    sandbar create sandbox NAME --set template.templateRef.name=%s\n", termsafe.Line(t.Name))
	}
	if t.Description != "" {
		fmt.Fprintf(out, "\n%s\n", termsafe.String(strings.TrimSpace(t.Description)))
	}
	if t.Agent == nil {
		return
	}
	if t.Agent.Usage != "" {
		fmt.Fprintf(out, "\nUsage:\n%s\n", termsafe.String(strings.TrimSpace(t.Agent.Usage)))
	}
	if len(t.Agent.Outputs) > 0 {
		fmt.Fprintln(out, "\nAn instance offers:")
	}
	for _, offered := range t.Agent.Outputs {
		fmt.Fprintf(out, "* %s\n", termsafe.Line(offered))
	}
}
