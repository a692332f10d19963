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
	}
	if key := s.RoutingKey; key != nil {
		field("Routing key", termsafe.Line(fmt.Sprintf("%s: sandbox=%s", key.HeaderName, key.Value)))
	}
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
