// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/liggitt/tabwriter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// The columns of instances. Every kind that a Template defines has the server's columns State, Idle and Expires;
// the table shows them in the order in which a person asks, with times that are counted from now.
const (
	columnState   = object.ColumnState
	columnIdle    = object.ColumnIdle
	columnExpires = object.ColumnExpires
	columnAge     = "Age"

	never = "never"
)

// tablePrinter prints a line for each object.
type tablePrinter struct {
	options printers.PrintOptions
	// inner prints the names of the columns once, and lines remembers how wide the columns are, so that the changes
	// of a watch stand below the list; both are nil before the first line.
	inner printers.ResourcePrinter
	lines *tabwriter.Writer
	now   func() time.Time
}

func newTablePrinter(o *output, wide bool) objectPrinter {
	return &tablePrinter{options: printers.PrintOptions{
		NoHeaders: o.noHeaders, Wide: wide, ShowLabels: o.showLabels, ColumnLabels: o.labelColumns,
	}, now: time.Now}
}

func (*tablePrinter) columns() bool { return true }
func (*tablePrinter) says() bool    { return true }

func (p *tablePrinter) print(out io.Writer, s Showing) error {
	if p.inner == nil {
		p.options.WithNamespace = s.namespaces
		p.inner, p.lines = printers.NewTablePrinter(p.options), printers.GetNewTabWriter(out)
	}
	if err := p.inner.PrintObj(tableOf(s, p.now()), p.lines); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if err := p.lines.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// tableOf is what is printed of objects: for instances Sandbar's own columns, and for other kinds the server's.
func tableOf(s Showing, now time.Time) *metav1.Table {
	columns, cells := s.columns, func(item object.Item) []any { return item.Cells }
	switch {
	case object.IsInstance(s.columns):
		columns, cells = instanceColumns(s.columns), func(item object.Item) []any { return InstanceCells(s, item, now) }
	case len(s.columns) == 0: // a server without tables
		columns = []metav1.TableColumnDefinition{{Name: "Name", Type: "string"}, {Name: columnAge, Type: "string"}}
		cells = func(item object.Item) []any {
			return []any{item.GetName(), since(item.GetCreationTimestamp().Time, now)}
		}
	}
	columns = slices.Clone(columns)
	for i := range columns {
		columns[i].Name = termsafe.Line(columns[i].Name) // a provider of any kind chooses what its columns are called
	}
	table := &metav1.Table{ColumnDefinitions: columns}
	for _, item := range s.items {
		row := metav1.TableRow{Cells: slices.Clone(cells(item)), Object: runtime.RawExtension{Object: item.Unstructured}}
		for i, cell := range row.Cells {
			if text, ok := cell.(string); ok {
				row.Cells[i] = termsafe.Line(text)
			}
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

var instanceOwn = []string{"Name", columnState, columnAge, columnIdle, columnExpires}

// instanceColumns are the columns of instances; those that the kind has in addition are for -o wide.
func instanceColumns(columns []metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	var own []metav1.TableColumnDefinition
	for _, name := range []string{"Name", "Template", columnState, columnAge, columnIdle, columnExpires} {
		own = append(own, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, c := range columns {
		if !slices.Contains(instanceOwn, c.Name) {
			c.Priority = 1
			own = append(own, c)
		}
	}
	return own
}

// InstanceCells are the cells of an instance, in the order of the columns of instances.
func InstanceCells(s Showing, item object.Item, now time.Time) []any {
	cells := []any{
		item.GetName(), TemplateOf(item.Unstructured), StateOf(item.Unstructured, s.deleted),
		since(item.GetCreationTimestamp().Time, now), idleFor(item.Unstructured, now), expiresIn(item.Unstructured, now),
	}
	for i, c := range s.columns {
		if !slices.Contains(instanceOwn, c.Name) && i < len(item.Cells) {
			cells = append(cells, item.Cells[i])
		}
	}
	return cells
}

// TemplateOf is what an instance was made by: the template that a Sandbox's pod follows, or the toolchain of a
// SandboxRunner.
func TemplateOf(obj *unstructured.Unstructured) string {
	named, _, _ := unstructured.NestedString(obj.Object, "spec", "template", "templateRef", "name")
	toolchain, _, _ := unstructured.NestedString(obj.Object, "spec", "toolchain")
	return cmp.Or(named, toolchain, cli.None)
}

// StateOf is the phase of an instance.
func StateOf(obj *unstructured.Unstructured, deleted bool) string {
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	switch {
	case deleted:
		return "Deleted"
	case obj.GetDeletionTimestamp() != nil:
		return string(sandbarv1alpha1.InstanceDeleting)
	}
	return cmp.Or(phase, string(sandbarv1alpha1.InstancePending))
}

// idleFor is how long nobody has used an instance.
func idleFor(obj *unstructured.Unstructured, now time.Time) string {
	used, ok := TimeAt(obj, "status", "activity", "lastActiveTime")
	if !ok {
		return cli.None
	}
	return since(used, now)
}

// expiresIn is how long an instance has until its shutdown time.
func expiresIn(obj *unstructured.Unstructured, now time.Time) string {
	end, ok := TimeAt(obj, "spec", "lifecycle", "shutdownTime")
	switch {
	case !ok:
		return never
	case !end.After(now):
		return "expired"
	}
	return duration.HumanDuration(end.Sub(now))
}

func since(moment, now time.Time) string {
	if moment.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(0, now.Sub(moment))) // this machine's clock may be behind
}

// TimeAt reads a time of an object, and reports whether it is there.
func TimeAt(obj *unstructured.Unstructured, path ...string) (time.Time, bool) {
	text, _, _ := unstructured.NestedString(obj.Object, path...)
	moment, err := time.Parse(time.RFC3339, text)
	return moment, err == nil
}
