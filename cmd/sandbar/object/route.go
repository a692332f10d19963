// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func newRouteCommand(s *target) *cobra.Command {
	return &cobra.Command{
		Use:   "route [KIND/]NAME",
		Short: "Show which requests are led to the copies of a Sandbox, and which are not",
		Long: `Show which requests are led where: the header that they have to carry, the condition Attached, each rule with its
matches and backends, the addresses, and the rules of which other routes of the environment take requests, with what to do.

NAME is that of a Sandbox with workloads and routing; sandboxroute/NAME shows a SandboxRoute of your own. Programs use
sandbar get sandboxroute NAME -o json.`,
		Example: `  sandbar route try
  sandbar route sandboxroute/storefront-preview`,
		Args: cli.Named("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			route, err := s.routeOf(cmd, args[0])
			if err != nil {
				return err
			}
			var text bytes.Buffer
			describeRoute(&text, route)
			if _, err := cmd.OutOrStdout().Write(text.Bytes()); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
			return nil
		},
	}
}

// routeOf reads the SandboxRoute that an argument names, or that of the Sandbox that it names.
func (s *target) routeOf(cmd *cobra.Command, argument string) (*sandbarv1alpha1.SandboxRoute, error) {
	obj, err := s.ofASandbox(cmd, argument)
	if err != nil {
		return nil, err
	}
	if obj.GetKind() != "SandboxRoute" {
		name := ""
		if refs := statusAs[sandbarv1alpha1.SandboxWorkloadsStatus](obj).UnderlyingRefs; refs != nil {
			name = refs.SandboxRouteName
		}
		if name == "" {
			return nil, &object.NotRoutedError{Kind: obj.GetKind(), Name: obj.GetName(), Reason: "it has no SandboxRoute; that of a Sandbox is made by its spec.routing"}
		}
		w, err := s.ObjectsOf(cmd.Context(), cmd, "sandboxroutes")
		if err != nil {
			return nil, err
		}
		s.Name = name
		list, err := w.Get(cmd.Context(), w.Of, w.Namespace, name, false)
		if err != nil {
			return nil, err
		}
		obj = list.Items[0].Unstructured
	}
	return asRoute(obj)
}

func asRoute(obj *unstructured.Unstructured) (*sandbarv1alpha1.SandboxRoute, error) {
	route := &sandbarv1alpha1.SandboxRoute{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, route); err != nil {
		return nil, errors.New("the SandboxRoute has a form that this program does not know: update it, or use sandbar get sandboxroute " + obj.GetName() + " -o yaml")
	}
	return route, nil
}

// describeRoute prints which requests are led where. Each text of the object is made safe for a terminal.
func describeRoute(out io.Writer, route *sandbarv1alpha1.SandboxRoute) {
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	field := func(name, value string) { fmt.Fprintf(lines, "%s:\t%s\n", name, termsafe.Line(value)) }
	field("Sandbox route", route.Name)
	header := cli.None
	if id := route.Status.SandboxID; id != "" {
		header = headerOf(&sandbarv1alpha1.RoutingKey{HeaderName: cmp.Or(strings.ToLower(route.Spec.SelectorHeaderName), sandbarv1alpha1.DefaultRoutingHeader), Value: id})
	}
	field("Header", header)
	field("Provider", string(route.Spec.Provider))
	if names := route.Status.Hostnames; len(names) > 0 {
		field("Hostnames", strings.Join(names, ", "))
	}
	attached := "Unknown: the provider has not looked at it yet"
	if c := meta.FindStatusCondition(route.Status.Conditions, sandbarv1alpha1.RouteAttachedCondition); c != nil {
		attached = fmt.Sprintf("%s, %s: %s", c.Status, c.Reason, c.Message)
	}
	field("Attached", attached)
	_ = lines.Flush() // into memory
	describeRules(out, route)
	describeAddresses(out, route)
	if len(route.Status.Shadowed) > 0 {
		fmt.Fprintln(out, "\nShadowed, by routes of the environment:")
	}
	for _, s := range route.Status.Shadowed {
		fmt.Fprintf(out, "  %s: %s\n", termsafe.Line(s.Rule), termsafe.Line(cmp.Or(s.Message, s.By)))
	}
}

func describeRules(out io.Writer, route *sandbarv1alpha1.SandboxRoute) {
	fmt.Fprintln(out, "\nRules:")
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "  NAME\tREQUESTS\tTO")
	for i := range route.Spec.Rules {
		rule := &route.Spec.Rules[i]
		to := backendsOf(rule)
		matches := rule.Matches
		if len(matches) == 0 {
			matches = []sandbarv1alpha1.SandboxRouteMatch{{}}
		}
		for j := range matches {
			text := matchOf(&matches[j])
			if service := rule.TargetServiceRef; service != nil {
				text = "of Service " + service.Name + ", " + text
			}
			fmt.Fprintf(lines, "  %s\t%s\t%s\n", termsafe.Line(rule.Name), termsafe.Line(text), termsafe.Line(to))
		}
	}
	_ = lines.Flush() // into memory
}

// matchOf says in words which requests a match is for.
func matchOf(m *sandbarv1alpha1.SandboxRouteMatch) string {
	var words []string
	if m.Method != "" {
		words = append(words, m.Method)
	}
	switch path := m.Path; {
	case path == nil, path.Type != sandbarv1alpha1.RoutePathExact && (path.Value == "" || path.Value == "/"):
		words = append(words, "all paths")
	case path.Type == sandbarv1alpha1.RoutePathExact:
		words = append(words, path.Value+" alone")
	case path.Type == sandbarv1alpha1.RoutePathExpression:
		words = append(words, "paths like "+path.Value)
	default:
		words = append(words, path.Value+" and below")
	}
	is := func(t sandbarv1alpha1.SandboxRouteValueType) string {
		if t == sandbarv1alpha1.RouteValueExpression {
			return " like "
		}
		return "="
	}
	for _, h := range m.Headers {
		words = append(words, "header "+h.Name+is(h.Type)+h.Value)
	}
	for _, q := range m.QueryParams {
		words = append(words, "parameter "+q.Name+is(q.Type)+q.Value)
	}
	return strings.Join(words, ", ")
}

// backendsOf are the backends of a rule, with their parts of the requests if there are several.
func backendsOf(rule *sandbarv1alpha1.SandboxRouteRule) string {
	var names []string
	sum := 0.0
	for i := range rule.Backends {
		sum += weightOf(&rule.Backends[i])
	}
	for i := range rule.Backends {
		b := &rule.Backends[i]
		name := ""
		switch {
		case b.Component != nil:
			name = b.Component.Name + ":" + b.Component.Port.String()
		case b.Service != nil:
			name = "Service " + b.Service.Name + ":" + b.Service.Port.String()
		}
		if len(rule.Backends) > 1 && sum > 0 {
			name += fmt.Sprintf(" (%.3g %%)", 100*weightOf(b)/sum)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func weightOf(b *sandbarv1alpha1.SandboxRouteBackend) float64 {
	if b.Weight == nil {
		return 1
	}
	return float64(*b.Weight)
}

func describeAddresses(out io.Writer, route *sandbarv1alpha1.SandboxRoute) {
	first := true
	for _, e := range route.Status.Endpoints {
		if e.URL == "" {
			continue
		}
		if first {
			fmt.Fprintln(out, "\nAddresses, for requests with the header:")
			first = false
		}
		fmt.Fprintf(out, "  %s\n", termsafe.Line(e.URL))
	}
}
