// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"slices"

	tea "charm.land/bubbletea/v2"
)

// binding is what keys do while the list or the pane has them.
type binding struct {
	// keys are names of Bubble Tea; shown is how the help names them.
	keys  []string
	shown string
	// short is for the line of keys at the bottom, if it is there, and help for the help.
	short, help string
	do          func(*Model) tea.Cmd
}

// section is a part of the help.
type section struct {
	title    string
	bindings []binding
}

// sections have all keys; the first binding of a key counts.
func sections() []section {
	return []section{
		{"Choose", []binding{
			{[]string{"down", "j"}, "↓ j", "", "the next sandbox; in the pane one line further", (*Model).down},
			{[]string{"up", "k"}, "↑ k", "", "the sandbox before; in the pane one line back", (*Model).up},
			{[]string{"pgdown", "space", "ctrl+f"}, "PgDn", "", "a page further", (*Model).pageDown},
			{[]string{"pgup", "ctrl+b"}, "PgUp", "", "a page back", (*Model).pageUp},
			{[]string{"home", "g"}, "Home g", "", "the first one", (*Model).home},
			{[]string{"end", "G"}, "End G", "", "the last one; in the pane, the log is followed again", (*Model).end},
			{[]string{"/"}, "/", "filter", "filter as you type, by words of any column; Esc ends that", (*Model).beginFilter},
			{[]string{"S"}, "S", "", "sort by state, name, age, idle time or expiry", (*Model).nextOrder},
		}},
		{"Show", []binding{
			{[]string{"l"}, "l", "log", "the log of the chosen sandbox, followed; l again closes it", (*Model).toggleLog},
			{[]string{"d", "enter"}, "d Enter", "describe", "all that is known of the chosen sandbox; d again closes it", (*Model).toggleDescription},
			{[]string{"tab"}, "Tab", "", "give the keys to the pane, or to the list", (*Model).toggleFocus},
			{[]string{"esc"}, "Esc", "", "close the pane, or take the filter away", (*Model).back},
			{[]string{"ctrl+l"}, "Ctrl-L", "", "draw the screen again", func(*Model) tea.Cmd { return tea.ClearScreen }},
		}},
		{"Act on the chosen sandbox", []binding{
			{[]string{"s"}, "s", "suspend", "suspend: its pods go, its volumes stay", act(Suspend)},
			{[]string{"r"}, "r", "resume", "resume", act(Resume)},
			{[]string{"R"}, "R", "", "restart its process", act(Restart)},
			{[]string{"n"}, "n", "", "renew: count it as used, so that it does not go to sleep", act(Renew)},
			{[]string{"N"}, "N", "", "move its shutdown time by an hour", act(Extend)},
			{[]string{"o"}, "o", "open", "open its preview in a browser", act(Open)},
			{[]string{"x"}, "x", "shell", "a shell in it", (*Model).shell},
			{[]string{"D", "delete"}, "D Del", "delete", "delete it, after a question", (*Model).askDelete},
		}},
		{"This view", []binding{
			{[]string{"?"}, "?", "help", "this help", (*Model).toggleHelp},
			{[]string{"q"}, "q", "quit", "leave", func(*Model) tea.Cmd { return tea.Quit }},
			{[]string{"ctrl+c"}, "Ctrl-C", "", "leave, with exit code 130", func(*Model) tea.Cmd { return tea.Interrupt }},
		}},
	}
}

// find returns the binding of a key.
func find(all []section, pressed string) (binding, bool) {
	for _, s := range all {
		for _, b := range s.bindings {
			if slices.Contains(b.keys, pressed) {
				return b, true
			}
		}
	}
	return binding{}, false
}

func act(action Action) func(*Model) tea.Cmd {
	return func(m *Model) tea.Cmd { return m.act(action) }
}
