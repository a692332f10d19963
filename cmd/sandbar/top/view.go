// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	// leastWidth and leastHeight are the smallest terminal that the view is drawn in.
	leastWidth  = 20
	leastHeight = 6
	// splitHeight is from which height on a pane stands below the list, and not in its place.
	splitHeight = 14
	// mostNotes bounds the lines of what an action has said, and perNote has a low terminal show fewer.
	mostNotes = 3
	perNote   = 5
)

// sizes are how many lines parts of the view have; parts that are not there have none.
type sizes struct{ list, pane int }

// sizes shares the lines between the title, the list with its heads, the pane with its title, notes and keys.
func (m *Model) sizes() sizes {
	room := m.height - 2 - len(m.notes()) // the title and the keys
	switch {
	case m.pane.kind == noPane:
		return sizes{list: max(0, room-1)}
	case m.height < splitHeight:
		return sizes{pane: max(0, room-1)}
	}
	list := (room - 2) * 2 / 5
	return sizes{list: list, pane: room - 2 - list}
}

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	return v
}

// text is the whole screen.
func (m *Model) text() string {
	switch {
	case m.width == 0:
		return "" // the size of the terminal is not known yet
	case m.width < leastWidth || m.height < leastHeight:
		return fit(fmt.Sprintf("Enlarge the terminal: at least %d columns and %d lines are needed.", leastWidth, leastHeight), m.width)
	case m.help != nil:
		lines := append([]string{m.bold(fit("Keys of sandbar top", m.width))}, m.help.view(m.height-2)...)
		return strings.Join(append(lines, fit(m.helpKeys(), m.width)), "\n")
	}
	size := m.sizes()
	lines := []string{m.titleLine()}
	if size.list > 0 {
		lines = append(lines, m.listLines(size.list)...)
	}
	if size.pane > 0 {
		lines = append(lines, m.paneTitle(size.pane))
		lines = append(lines, m.pane.view(size.pane)...)
	}
	lines = append(lines, m.notes()...)
	return strings.Join(append(lines, m.bottomLine()), "\n")
}

// titleLine says what is shown, and how many.
func (m *Model) titleLine() string {
	count := fmt.Sprintf("%d sandboxes", len(m.list.rows))
	if len(m.list.rows) == 1 {
		count = "1 sandbox"
	}
	if m.list.filter != "" {
		count = fmt.Sprintf("%d of %s", len(m.list.shown), count)
	}
	left := "sandbar top  " + m.opts.Place
	room := m.width - ansi.StringWidth(count) - gap
	return m.bold(fit(left, max(0, room)) + fit("", gap) + count)
}

// listLines are the heads of the columns and as many lines of the list as there is room for.
func (m *Model) listLines(height int) []string {
	l := layoutOf(m.list.widths, m.width, m.opts.Namespaces)
	lines := []string{m.bold(fit(strings.Repeat(" ", indent)+l.line(columnNames[:]), m.width))}
	if len(m.list.shown) == 0 {
		lines = append(lines, fit(m.nothing(), m.width))
	}
	for _, n := range m.list.window(height) {
		lines = append(lines, m.listLine(n, l))
	}
	for len(lines) < height+1 {
		lines = append(lines, "")
	}
	return lines[:height+1]
}

func (m *Model) listLine(n line, l layout) string {
	e := m.list.shown[n.row]
	if n.heading {
		return m.state(e.rank, m.bold(fit(fmt.Sprintf("%s (%d)", e.State, n.members), m.width)))
	}
	cells := e.Cells(m.now)
	if n.row == m.list.at {
		return m.chosen(fit("> "+l.line(cells), m.width))
	}
	// The state is drawn as wide as its column, so that colours end with it.
	cells[columnState] = m.state(e.rank, fit(cells[columnState], l.widths[columnState]))
	return strings.Repeat(" ", indent) + l.line(cells)
}

// nothing says why the list is empty.
func (m *Model) nothing() string {
	switch {
	case m.reading:
		return "Reading the sandboxes …"
	case len(m.list.rows) > 0:
		return fmt.Sprintf("No sandbox matches %q; Esc takes the filter away.", m.list.filter)
	case len(m.troubles) > 0:
		return "No sandbox is known."
	}
	return "There is no sandbox here. sandbar create makes one: sandbar create --help"
}

// paneTitle is the line above a pane.
func (m *Model) paneTitle(height int) string {
	title := "── " + m.pane.title + " "
	if m.focus {
		title = "══ " + m.pane.title + " (Tab: back to the list) "
	}
	position := m.pane.position(height)
	if position != "" {
		position = " " + position + " ──"
	}
	room := m.width - ansi.StringWidth(position)
	title = fit(title, min(ansi.StringWidth(title), room))
	return m.in(cyan, title+strings.Repeat("─", max(0, room-ansi.StringWidth(title)))+position)
}

// notes are the lines above the keys: kinds that cannot be watched, and what an action has said, or why the chosen
// sandbox is in its state.
func (m *Model) notes() []string {
	var lines []string
	if trouble := m.trouble(); trouble != "" {
		lines = append(lines, m.in(red, fit(trouble, m.width)))
	}
	text, colour := m.message, red
	if !m.failed {
		colour = cyan
	}
	if row, ok := m.list.row(); ok && text == "" && row.State != string(sandbarv1alpha1.InstanceReady) && row.Reason != row.State {
		text, colour = row.Name+" is "+row.Reason, grey
	}
	if text == "" {
		return append(lines, "")
	}
	parts := strings.Split(ansi.Wrap(text, m.width, ""), "\n")
	if most := max(1, min(mostNotes, m.height/perNote)); len(parts) > most {
		parts = parts[:most]
		parts[most-1] = ansi.Truncate(parts[most-1], m.width-2, "") + " …"
	}
	for _, part := range parts {
		lines = append(lines, m.in(colour, fit(part, m.width)))
	}
	return lines
}

// trouble says which kinds cannot be watched now. All of them have one reason as a rule: the connection.
func (m *Model) trouble() string {
	if len(m.troubles) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(m.troubles))
	reason := m.troubles[names[0]]
	for i, name := range names {
		names[i], _, _ = strings.Cut(name, ".")
	}
	return fmt.Sprintf("Not watched now, and tried again: %s (%s)", strings.Join(names, ", "), reason)
}

// bottomLine has the keys, or what a person types.
func (m *Model) bottomLine() string {
	switch {
	case m.question != nil:
		q := m.question
		return m.bold(fit(fmt.Sprintf("Delete the %s %s, with its volumes? y: yes, any other key: no", cmp.Or(q.Kind, "sandbox"), q.Name), m.width))
	case m.typing:
		return m.filterLine()
	}
	return fit(m.keyLine(), m.width)
}

// filterLine shows the end of a filter that is too long, since that is where a person types.
func (m *Model) filterLine() string {
	text := "/" + m.list.filter
	if over := ansi.StringWidth(text) + 1 - m.width; over > 0 {
		text = "…" + ansi.TruncateLeft(text, over+1, "")
	}
	return m.bold(fit(text+"█", m.width))
}

// keyLine has as many keys as there is room for; help and quit are always among them.
func (m *Model) keyLine() string {
	var keys, last []string
	for _, s := range m.keys {
		for _, b := range s.bindings {
			if b.short == "" {
				continue
			}
			first, _, _ := strings.Cut(b.shown, " ")
			text := first + " " + b.short
			if b.short == "help" || b.short == "quit" {
				last = append(last, text)
			} else {
				keys = append(keys, text)
			}
		}
	}
	if m.list.filter != "" {
		keys = append([]string{fmt.Sprintf("/%s (Esc)", m.list.filter)}, keys...)
	}
	end := strings.Join(last, "  ")
	for len(keys) > 0 && ansi.StringWidth(strings.Join(append(slices.Clone(keys), end), "  ")) > m.width {
		keys = keys[:len(keys)-1]
	}
	return strings.Join(append(keys, end), "  ")
}

// helpKeys are those of the help.
func (m *Model) helpKeys() string {
	text := "any other key: back"
	if len(m.help.wrapped) > m.height-2 {
		text = "↓ ↑ PgDn PgUp: scroll  " + text
	}
	return text
}

// helpText lists all keys.
func helpText(all []section) string {
	var text strings.Builder
	for i, s := range all {
		if i > 0 {
			text.WriteByte('\n')
		}
		fmt.Fprintln(&text, s.title)
		for _, b := range s.bindings {
			fmt.Fprintf(&text, "  %s  %s\n", fit(b.shown, 8), b.help)
		}
	}
	return text.String()
}
