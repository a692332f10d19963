// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// statusAs is what the status of an object says in the words of a kind; the zero value for one of another kind.
func statusAs[T any](obj *unstructured.Unstructured) (said T) {
	status, _ := obj.Object["status"].(map[string]any)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(status, &said) != nil {
		return *new(T) // a kind of somebody else's has a field of that name
	}
	return said
}

// describeComponents prints the copies of an instance that has some, each with what is wrong with it.
func describeComponents(out io.Writer, obj *unstructured.Unstructured) {
	copies := statusAs[sandbarv1alpha1.SandboxGroupStatus](obj)
	if copies.SandboxID == "" || len(copies.Components) == 0 {
		return
	}
	fmt.Fprintln(out, "\nComponents:")
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "  NAME\tREADY\tSERVICE\tREASON\tMESSAGE")
	for i := range copies.Components {
		row := &copies.Components[i]
		reason, message := tellsOf(row.Conditions)
		fmt.Fprintf(lines, "  %s\t%t\t%s\t%s\t%s\n", termsafe.Line(row.Name), row.Ready, serviceOf(row), termsafe.Line(reason), oneLine(message))
	}
	_ = lines.Flush()
}

// serviceOf is the Service of a copy with its ports.
func serviceOf(row *sandbarv1alpha1.SandboxGroupComponentStatus) string {
	if row.ServiceName == "" {
		return cli.None
	}
	var ports []string
	for _, port := range row.ServicePorts {
		ports = append(ports, strconv.Itoa(int(port)))
	}
	return termsafe.Line(row.ServiceName + ":" + strings.Join(ports, ","))
}

// tellsOf is what the first condition says that is not True, or else the last one: the others follow from it.
func tellsOf(conditions []metav1.Condition) (reason, message string) {
	for _, c := range conditions {
		reason, message = c.Reason, c.Message
		if c.Status != metav1.ConditionTrue {
			break
		}
	}
	return reason, message
}
