// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"slices"
	"strings"
)

// order is what the list is sorted by.
type order int

const (
	byState order = iota
	byName
	byAge
	byIdle
	byExpiry
)

// orders are the names of the orders.
var orders = []string{"state", "name", "age", "idle time", "expiry"}

// list has the sandboxes, and those of them that are shown.
type list struct {
	rows   map[key]*entry
	filter string
	by     order

	// shown are the rows that the filter lets through, in their order; lines are the same with the headings of groups
	// between them.
	shown []*entry
	lines []line
	// widths are those of the widest texts that are shown.
	widths [columnAge]int

	// chosen is the row that keys are about, the one with the index at of those that are shown.
	chosen key
	at     int
	// moved reports whether a person has chosen a row; before that it is the first one.
	moved bool
	// first is the first line that is drawn.
	first int
}

// line is a line of the list: a row, or the heading of a group.
type line struct {
	row     int // index of shown; of a heading the first row of the group
	heading bool
	members int // of a heading
}

func newList() *list { return &list{rows: map[key]*entry{}} }

// apply takes news.
func (l *list) apply(events []event) {
	for _, e := range events {
		if e.listed {
			for k := range l.rows {
				if k.resource == e.resource {
					delete(l.rows, k)
				}
			}
		}
		for _, row := range e.rows {
			if e.gone {
				delete(l.rows, row.key())
			} else {
				l.rows[row.key()] = newEntry(row)
			}
		}
	}
	l.arrange()
}

// arrange filters and sorts the rows again. The chosen row stays chosen; if it is not shown any more, it is the one that
// stands in its place.
func (l *list) arrange() {
	words := strings.Fields(strings.ToLower(l.filter))
	l.shown, l.widths = l.shown[:0], [columnAge]int{}
	for _, e := range l.rows {
		if slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(e.text, word) }) {
			continue
		}
		l.shown = append(l.shown, e)
		for i, width := range e.widths {
			l.widths[i] = max(l.widths[i], width)
		}
	}
	slices.SortFunc(l.shown, l.compare)
	l.group()
	at := slices.IndexFunc(l.shown, func(e *entry) bool { return e.key() == l.chosen })
	switch {
	case !l.moved:
		at = 0
	case at < 0:
		at = l.at
	}
	l.choose(at)
}

// group makes the lines of the rows.
func (l *list) group() {
	l.lines = l.lines[:0]
	heading := -1
	for i, e := range l.shown {
		if l.by == byState {
			if i == 0 || l.shown[i-1].State != e.State {
				heading = len(l.lines)
				l.lines = append(l.lines, line{row: i, heading: true})
			}
			l.lines[heading].members++
		}
		l.lines = append(l.lines, line{row: i})
	}
}

// compare is the order of two rows. Rows that are equal in it are in the order of their names.
func (l *list) compare(a, b *entry) int {
	first := 0
	switch l.by {
	case byState:
		first = cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.State, b.State))
	case byAge:
		first = b.Created.Compare(a.Created) // the youngest first
	case byIdle:
		first = b.Used.Compare(a.Used) // the one that was used last is the first, and those without a use are the last
	case byExpiry:
		switch { // those that never expire are the last
		case a.Shutdown.IsZero() != b.Shutdown.IsZero() && a.Shutdown.IsZero():
			first = 1
		case a.Shutdown.IsZero() != b.Shutdown.IsZero():
			first = -1
		default:
			first = a.Shutdown.Compare(b.Shutdown)
		}
	case byName:
	}
	return cmp.Or(first, cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource))
}

// move chooses the row that is so many rows further down.
func (l *list) move(by int) {
	l.moved = true
	l.choose(l.at + by)
}

// choose chooses the row of an index; one that is outside of the list means the nearest.
func (l *list) choose(at int) {
	l.at = max(0, min(at, len(l.shown)-1))
	if row, ok := l.row(); ok {
		l.chosen = row.key()
	}
}

// row returns the chosen row, if there is one.
func (l *list) row() (Row, bool) {
	if len(l.shown) == 0 {
		return Row{}, false
	}
	return l.shown[l.at].Row, true
}

// window returns the lines to draw in so many lines of the terminal: the chosen row is among them, and the heading of its
// group if it stands right above.
func (l *list) window(height int) []line {
	at := max(0, slices.IndexFunc(l.lines, func(n line) bool { return !n.heading && n.row == l.at }))
	top := at
	if at > 0 && l.lines[at-1].heading && height > 1 {
		top--
	}
	l.first = max(at-height+1, min(l.first, top))
	l.first = max(0, min(l.first, len(l.lines)-height))
	return l.lines[l.first:min(len(l.lines), l.first+height)]
}
