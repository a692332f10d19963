// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// Extension is by how much [Extend] moves a shutdown time.
const Extension = time.Hour

// settles is how long a row has to be the chosen one before its log is read: a person who walks down the list reads
// none on the way, and reading a log counts as use of a sandbox.
const settles = 300 * time.Millisecond

// maxWaiting is how many pieces of a log may wait for the screen.
const maxWaiting = 4096

// Options say what a view is of.
type Options struct {
	// Feed brings the sandboxes, and Actions does what keys ask for.
	Feed    *Feed
	Actions Actions
	// Place is what the sandboxes are of, a workspace and a namespace for example; Namespaces says that they are of
	// several namespaces.
	Place      string
	Namespaces bool
	// Colours allows colours; without them there are bold and reverse alone.
	Colours bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Model is the Bubble Tea model of the view.
type Model struct {
	// ctx ends what the view has begun.
	ctx  context.Context
	opts Options
	keys []section
	style
	list *list

	width, height int
	now           time.Time
	// reading is true until the first kind was listed or could not be.
	reading bool
	// troubles are why kinds cannot be watched now.
	troubles map[string]string

	pane pane
	// focus reports whether keys that move are the pane's.
	focus bool
	// stream numbers the logs that were read; stop ends the one that is, and ended reports whether it ended by itself.
	stream int
	stop   context.CancelFunc
	ended  bool

	// typing reports whether keys are the filter's.
	typing bool
	help   *pane
	// question is the deletion that a person is asked about.
	question *Row
	// message is what an action has said; failed reports whether it is an error.
	message string
	failed  bool
}

// New returns the model of a view. What it begins ends with the context.
func New(ctx context.Context, opts Options) *Model {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Model{
		ctx: ctx, opts: opts, keys: sections(), style: style{opts.Colours}, list: newList(), now: opts.Now(), reading: true,
		troubles: map[string]string{}, stop: func() {},
	}
}

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return tea.Batch(m.opts.Feed.next(m.ctx), tick()) }

// tickMsg has the ages counted again.
type tickMsg struct{}

func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} }) }

// doneMsg is the end of an action, or of a program that had the terminal.
type doneMsg struct {
	text string
	err  error
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.now = m.opts.Now()
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case tea.PasteMsg:
		if m.typing {
			m.setFilter(m.list.filter + termsafe.Line(msg.Content))
		}
	case tickMsg:
		return m, tick()
	case feedMsg:
		m.take(msg)
		return m, tea.Batch(m.opts.Feed.next(m.ctx), m.follow())
	case beginLogMsg:
		return m, m.beginLog(int(msg))
	case logMsg:
		return m, m.takeLog(msg)
	case describedMsg:
		m.described(msg)
	case doneMsg:
		m.say(msg.text, msg.err)
	}
	return m, nil
}

func (m *Model) resize(width, height int) {
	m.width, m.height = width, height
	m.pane.resize(width)
	if m.help != nil {
		m.help.resize(width)
	}
}

// take takes what the feed has brought.
func (m *Model) take(events []event) {
	m.reading = false
	for _, e := range events {
		switch resource := termsafe.Line(e.resource); {
		case !e.told:
		case e.trouble == "":
			delete(m.troubles, resource)
		default:
			m.troubles[resource] = termsafe.Line(e.trouble)
		}
	}
	m.list.apply(events)
}

// press does what a key is for.
func (m *Model) press(key tea.KeyPressMsg) tea.Cmd {
	pressed := key.String()
	switch {
	case pressed == "ctrl+c":
		return tea.Interrupt
	case pressed == "ctrl+l": // changes nothing: it is for a screen that something else has drawn on
		return tea.ClearScreen
	case m.question != nil:
		return m.answer(pressed)
	case m.help != nil:
		return m.pressInHelp(pressed)
	case m.typing:
		return m.pressInFilter(key)
	}
	m.message, m.failed = "", false
	if b, ok := find(m.keys, pressed); ok {
		return b.do(m)
	}
	return nil
}

// say shows what an action has said.
func (m *Model) say(text string, err error) {
	if m.failed = err != nil; m.failed {
		text = err.Error()
	}
	m.message = termsafe.Line(text)
}

// act does something to the chosen row.
func (m *Model) act(action Action) tea.Cmd {
	if row, ok := m.list.row(); ok {
		return m.carryOut(action, row)
	}
	return nil
}

func (m *Model) carryOut(action Action, row Row) tea.Cmd {
	m.message = fmt.Sprintf("%s %s …", doing[action], row.Name)
	return func() tea.Msg {
		text, err := m.opts.Actions.Do(m.ctx, action, row)
		return doneMsg{text, err}
	}
}

func (m *Model) askDelete() tea.Cmd {
	if row, ok := m.list.row(); ok {
		m.question = &row
	}
	return nil
}

// answer takes the answer to the question. The row of the question is deleted, also if another one was chosen by a change
// of the list meanwhile.
func (m *Model) answer(pressed string) tea.Cmd {
	row := *m.question
	m.question = nil
	if pressed != "y" && pressed != "Y" {
		m.message = row.Name + " is not deleted"
		return nil
	}
	return m.carryOut(Delete, row)
}

// shell gives the terminal to a shell in the sandbox, until that ends.
func (m *Model) shell() tea.Cmd {
	row, ok := m.list.row()
	if !ok {
		return nil
	}
	return tea.Exec(m.opts.Actions.Shell(m.ctx, row), func(err error) tea.Msg {
		return doneMsg{fmt.Sprintf("the shell in %s has ended", row.Name), err}
	})
}
