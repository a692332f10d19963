// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// maxFilter bounds what a person can type, or paste, as the filter.
const maxFilter = 200

func (m *Model) beginFilter() tea.Cmd {
	m.typing, m.focus = true, false
	return nil
}

// pressInFilter edits the filter. Keys that move choose among what it leaves.
func (m *Model) pressInFilter(key tea.KeyPressMsg) tea.Cmd {
	filter := m.list.filter
	switch pressed := key.String(); pressed {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.setFilter("")
	case "backspace", "ctrl+h":
		_, size := utf8.DecodeLastRuneInString(filter)
		m.setFilter(filter[:len(filter)-size])
	case "ctrl+w":
		filter = strings.TrimRight(filter, " ")
		m.setFilter(filter[:strings.LastIndex(filter, " ")+1])
	case "ctrl+u":
		m.setFilter("")
	case "down", "up", "pgdown", "pgup":
		b, _ := find(m.keys, pressed)
		return b.do(m)
	default:
		if key.Text != "" {
			m.setFilter(filter + termsafe.Line(key.Text))
		}
	}
	return m.follow()
}

func (m *Model) setFilter(text string) {
	for len(text) > maxFilter {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	m.list.filter = text
	m.list.arrange()
}

func (m *Model) nextOrder() tea.Cmd {
	m.list.by = (m.list.by + 1) % order(len(orders))
	m.list.arrange()
	m.message = "sorted by " + orders[m.list.by]
	return nil
}

// move moves in the list, or in the pane if that has the keys.
func (m *Model) move(rows int) tea.Cmd {
	if m.focus {
		m.pane.scroll(-rows, m.sizes().pane)
		return nil
	}
	m.list.move(rows)
	return m.follow()
}

func (m *Model) down() tea.Cmd { return m.move(1) }
func (m *Model) up() tea.Cmd   { return m.move(-1) }

func (m *Model) pageDown() tea.Cmd { return m.move(m.page()) }
func (m *Model) pageUp() tea.Cmd   { return m.move(-m.page()) }
func (m *Model) home() tea.Cmd     { return m.move(-everything) }
func (m *Model) end() tea.Cmd      { return m.move(everything) }

// everything is more than a list or a pane has.
const everything = 1 << 30

// page is how far a page key goes.
func (m *Model) page() int {
	if m.focus {
		return max(1, m.sizes().pane-1)
	}
	return max(1, m.sizes().list-2)
}

func (m *Model) toggleFocus() tea.Cmd {
	m.focus = !m.focus && m.pane.kind != noPane
	return nil
}

// back closes what is open.
func (m *Model) back() tea.Cmd {
	switch {
	case m.pane.kind != noPane:
		m.closePane()
	case m.list.filter != "":
		m.setFilter("")
	}
	return m.follow()
}

func (m *Model) toggleHelp() tea.Cmd {
	m.help = &pane{kind: descriptionPane, width: m.width}
	m.help.set(helpText(m.keys))
	return nil
}

// pressInHelp scrolls the help, or closes it.
func (m *Model) pressInHelp(pressed string) tea.Cmd {
	height := m.height - 2
	switch pressed {
	case "down", "j":
		m.help.scroll(-1, height)
	case "up", "k":
		m.help.scroll(1, height)
	case "pgdown", "space":
		m.help.scroll(-height, height)
	case "pgup":
		m.help.scroll(height, height)
	default:
		m.help = nil
	}
	return nil
}
