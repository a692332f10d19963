// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// describeRouting prints where the workloads of a Sandbox are, and by which header requests are routed to them.
func describeRouting(field func(string, ...string), obj *unstructured.Unstructured) {
	s := statusAs[sandbarv1alpha1.SandboxWorkloadsStatus](obj)
	if s.UnderlyingRefs != nil {
		field("Sandbox group", termsafe.Line(s.UnderlyingRefs.SandboxGroupName))
		if name := s.UnderlyingRefs.SandboxRouteName; name != "" {
			field("Sandbox route", termsafe.Line(name))
		}
	}
	if key := s.RoutingKey; key != nil {
		field("Routing key", termsafe.Line(headerOf(key)))
	}
}

// headerOf is the header of a request that is led to the workloads.
func headerOf(key *sandbarv1alpha1.RoutingKey) string {
	if key.HeaderName == sandbarv1alpha1.DefaultRoutingHeader {
		return key.HeaderName + ": sandbox=" + key.Value
	}
	return key.HeaderName + ": " + key.Value
}

// describeEndpoints prints the addresses at which requests with the routing key reach the workloads of a Sandbox.
func describeEndpoints(out io.Writer, obj *unstructured.Unstructured) {
	endpoints := statusAs[sandbarv1alpha1.SandboxWorkloadsStatus](obj).Endpoints
	if len(endpoints) == 0 {
		return
	}
	fmt.Fprintln(out, "\nEndpoints, for requests with the routing key:")
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "  NAME\tINTERCEPTION\tHOSTNAME\tPATH\tURL")
	for _, e := range endpoints {
		fmt.Fprintf(lines, "  %s\t%s\t%s\t%s\t%s\n", termsafe.Line(e.Name), termsafe.Line(e.Interception), termsafe.Line(e.Hostname),
			termsafe.Line(cmp.Or(e.Path, "by an expression")), termsafe.Line(cmp.Or(e.URL, cli.None)))
	}
	_ = lines.Flush() // into memory
}

// describeWorkloads prints the workloads of a Sandbox that has some. What is wrong with one, its conditions say.
func describeWorkloads(out io.Writer, obj *unstructured.Unstructured) {
	s := statusAs[sandbarv1alpha1.SandboxWorkloadsStatus](obj)
	if len(s.Workloads) == 0 {
		return
	}
	fmt.Fprintln(out, "\nWorkloads:")
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "  NAME\tREADY\tREPLICAS\tIMAGE")
	for _, row := range s.Workloads {
		replicas := cli.None
		if row.Replicas != nil {
			replicas = strconv.Itoa(int(*row.Replicas))
		}
		fmt.Fprintf(lines, "  %s\t%t\t%s\t%s\n", termsafe.Line(row.Name), row.Ready, replicas, termsafe.Line(cmp.Or(row.Image, cli.None)))
	}
	_ = lines.Flush() // into memory
}
