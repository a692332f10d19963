// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The columns of the list, in their order; Cells has the same.
const (
	columnName = iota
	columnNamespace
	columnKind
	columnTemplate
	columnState
	columnAge
	columnIdle
	columnExpires
	columnStart
	columns
)

var columnNames = [columns]string{"NAME", "NAMESPACE", "KIND", "TEMPLATE", "STATE", "AGE", "IDLE", "EXPIRES", "START"}

// leftOut is the order in which columns go when the terminal is too narrow for all. NAME and STATE stay.
var leftOut = []int{columnStart, columnTemplate, columnKind, columnNamespace, columnIdle, columnExpires, columnAge}

const (
	// gap is between two columns, and indent before the first one, where the chosen row has its mark.
	gap    = 2
	indent = 2
	// widest bounds a column, so that one long text does not push the others out; leastName is what a narrow
	// terminal leaves for the names while there are other columns to leave out, and leastCell what it leaves of a
	// column that stays.
	widest    = 40
	leastName = 16
	leastCell = 7
)

// timeWidths are those of the columns that change with time, for their longest texts: 119m, <none>, expired and Cold.
var timeWidths = map[int]int{columnAge: 5, columnIdle: 6, columnExpires: 7, columnStart: 6}

// layout is which columns a terminal has room for, and how wide they are.
type layout struct {
	columns []int
	widths  [columns]int
}

// layoutOf fits the columns into a width. namespaces reports whether the rows are of several namespaces.
func layoutOf(natural [columnAge]int, width int, namespaces bool) layout {
	var l layout
	for i := range columns {
		if i == columnNamespace && !namespaces {
			continue
		}
		l.columns = append(l.columns, i)
		l.widths[i] = len(columnNames[i])
		if i < columnAge {
			l.widths[i] = max(l.widths[i], min(natural[i], widest)) //nolint:gosec // natural has columnAge elements
		} else {
			l.widths[i] = max(l.widths[i], timeWidths[i])
		}
	}
	room := width - indent
	for _, column := range leftOut {
		if l.needs() <= room || l.needs()-max(0, l.widths[columnName]-leastName) <= room {
			break
		}
		l.columns = slices.DeleteFunc(l.columns, func(i int) bool { return i == column })
	}
	for _, column := range []int{columnName, columnState} {
		if over := l.needs() - room; over > 0 {
			l.widths[column] = min(l.widths[column], max(leastCell, l.widths[column]-over))
		}
	}
	return l
}

// needs is how many cells the columns take.
func (l layout) needs() int {
	cells := gap * (len(l.columns) - 1)
	for _, i := range l.columns {
		cells += l.widths[i]
	}
	return cells
}

// line puts texts under the columns.
func (l layout) line(cells []string) string {
	var text strings.Builder
	for n, i := range l.columns {
		if n > 0 {
			text.WriteString(strings.Repeat(" ", gap))
		}
		text.WriteString(fit(cells[i], l.widths[i]))
	}
	return text.String()
}

// fit makes a text exactly so many cells wide.
func fit(text string, width int) string {
	have := ansi.StringWidth(text)
	if have > width {
		text = ansi.Truncate(text, width, "…")
		have = ansi.StringWidth(text)
	}
	return text + strings.Repeat(" ", max(0, width-have))
}
