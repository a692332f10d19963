// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func newBaselinesCommand(s *target) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "baselines [NAME]",
		Short: "List the Baselines that are offered to your workspace, or show one",
		Long: `List the Baselines that the provider of your workspace's binding offers to it: workloads that run on the provider's
cluster, such as the services of a shop. With NAME, show its workloads with their containers, images and ports, its
Services, and by what requests may be led to copies: Gateways and hostnames, or proxies in front of the Services. A namespace is called as the operator has named it for you.

The provider's data plane answers, so it has to be trusted: sandbar trust.`,
		Example: `  sandbar baselines
  sandbar baselines storefront
  sandbar baselines storefront -o yaml`,
		Args:              cli.AtMost("NAME"),
		RunE:              func(cmd *cobra.Command, args []string) error { return s.baselines(cmd, args, output) },
		ValidArgsFunction: s.completeBaseline,
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json for one JSON object a line, or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{"text", "json", "yaml"}, cli.NoFiles)) // the flag is there
	return cmd
}

func (s *target) baselines(cmd *cobra.Command, args []string, output string) error {
	write, err := baselinePrinter(output, len(args) > 0)
	if err != nil {
		return err
	}
	w, err := s.Open()
	if err != nil {
		return err
	}
	name := strings.Join(args, "")
	all, err := w.Baselines(cmd.Context(), name)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b client.Baseline) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case len(all) == 0 && name != "":
		return fmt.Errorf("no Baseline %q is offered to this workspace; sandbar baselines lists those that are", name)
	case len(all) == 0 && output == "text":
		fmt.Fprintln(cmd.ErrOrStderr(), "No Baseline is offered to this workspace. An operator offers one by its path in spec.workspaces.")
		return nil
	}
	var text bytes.Buffer
	if err := write(&text, all); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return cli.WriteDocument(cmd.OutOrStdout(), text.Bytes())
}

// baselinePrinter is what writes Baselines in a format; one that was named is shown whole.
func baselinePrinter(output string, named bool) (func(io.Writer, []client.Baseline) error, error) {
	switch {
	case output == "json":
		return printJSON, nil
	case output == "yaml":
		return printYAML, nil
	case output != "text":
		return nil, &cli.UsageError{Err: fmt.Errorf("-o %q is neither text, json nor yaml", output)}
	case named:
		return describeBaselines, nil
	}
	return listBaselines, nil
}

func printJSON(out io.Writer, all []client.Baseline) error {
	encoder := json.NewEncoder(out)
	for _, b := range all {
		if err := encoder.Encode(b); err != nil {
			return err
		}
	}
	return nil
}

func printYAML(out io.Writer, all []client.Baseline) error {
	for i, b := range all {
		document, err := yaml.Marshal(b)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(out, "---")
		}
		if _, err := out.Write(document); err != nil {
			return err
		}
	}
	return nil
}

func listBaselines(out io.Writer, all []client.Baseline) error {
	lines := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(lines, "NAME\tREADY\tNAMESPACES\tWORKLOADS\tSERVICES\tDESCRIPTION")
	for _, b := range all {
		fmt.Fprintf(lines, "%s\t%t\t%s\t%d\t%d\t%s\n", termsafe.Line(b.Name), b.Ready, termsafe.Line(strings.Join(b.Aliases, ",")),
			b.WorkloadsFound, b.ServicesFound, termsafe.Line(cmp.Or(firstSentence(b.Description), b.DisplayName)))
	}
	return lines.Flush()
}

func describeBaselines(out io.Writer, all []client.Baseline) error {
	for _, b := range all {
		if err := describeBaseline(out, b); err != nil {
			return err
		}
	}
	return nil
}

// describeRouting says where requests may be led to copies.
func describeRouting(out io.Writer, routing *client.BaselineRouting) {
	if routing == nil {
		return
	}
	if len(routing.Gateways) > 0 {
		var gateways []string
		for _, g := range routing.Gateways {
			gateways = append(gateways, g.String())
		}
		fmt.Fprintf(out, "Gateways:   %s\n", termsafe.Line(strings.Join(gateways, ", ")))
		fmt.Fprintf(out, "Hostnames:  %s\n", termsafe.Line(strings.Join(routing.Hostnames, ", ")))
	}
	if routing.Proxy {
		fmt.Fprintf(out, "Proxies:    in front of its Services\n")
	}
}

func describeBaseline(out io.Writer, b client.Baseline) error {
	fmt.Fprintf(out, "%s: %s\n", termsafe.Line(b.Name), termsafe.Line(b.DisplayName))
	fmt.Fprintf(out, "Namespaces: %s\n", termsafe.Line(strings.Join(b.Aliases, ", ")))
	fmt.Fprintf(out, "Ready:      %t\n", b.Ready)
	describeRouting(out, b.Routing)
	if b.Description != "" {
		fmt.Fprintf(out, "\n%s\n", termsafe.String(strings.TrimSpace(b.Description)))
	}
	lines := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if len(b.Workloads) > 0 {
		fmt.Fprintln(lines, "\nWORKLOAD\tNAMESPACE\tREPLICAS\tCONTAINER\tIMAGE\tPORTS")
	}
	for _, w := range b.Workloads {
		writeWorkload(lines, w)
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	if len(b.Services) > 0 {
		fmt.Fprintln(lines, "\nSERVICE\tNAMESPACE\tPORTS")
	}
	for _, s := range b.Services {
		fmt.Fprintf(lines, "%s\t%s\t%s\n", termsafe.Line(s.Name), termsafe.Line(s.Namespace), portsOf(s.Ports))
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	if more := b.WorkloadsFound - len(b.Workloads); more > 0 {
		fmt.Fprintf(out, "\n%s more that the catalogue does not list\n", cli.Counted(more, "workload"))
	}
	if more := b.ServicesFound - len(b.Services); more > 0 {
		fmt.Fprintf(out, "\n%s more that the catalogue does not list\n", cli.Counted(more, "Service"))
	}
	return nil
}

// writeWorkload writes a line for each container; only the first says whose it is.
func writeWorkload(lines io.Writer, w client.BaselineWorkload) {
	head := fmt.Sprintf("%s/%s\t%s\t%d", termsafe.Line(w.Kind), termsafe.Line(w.Name), termsafe.Line(w.Namespace), w.Replicas)
	if len(w.Containers) == 0 {
		fmt.Fprintf(lines, "%s\t%s\t\t\n", head, cli.None)
	}
	for _, c := range w.Containers {
		fmt.Fprintf(lines, "%s\t%s\t%s\t%s\n", head, termsafe.Line(c.Name), termsafe.Line(c.Image), portsOf(c.Ports))
		head = "\t\t"
	}
}

// portsOf writes ports as name:number, without the protocol where it is TCP.
func portsOf(ports []client.BaselinePort) string {
	var words []string
	for _, p := range ports {
		word := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			word = p.Name + ":" + word
		}
		if p.Protocol != "" && p.Protocol != "TCP" {
			word += "/" + p.Protocol
		}
		words = append(words, termsafe.Line(word))
	}
	return strings.Join(words, ", ")
}

// completeBaseline completes NAME.
func (s *target) completeBaseline(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cli.NoFiles
	}
	var found []cobra.Completion
	for _, b := range s.OfferedBaselines(cmd) {
		if strings.HasPrefix(b.Name, word) {
			found = append(found, termsafe.Line(b.Name))
		}
	}
	return found, cli.NoFiles
}
