// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
)

// toggleLog opens the log of the chosen row, or closes it.
func (m *Model) toggleLog() tea.Cmd {
	if m.pane.kind == logPane {
		m.closePane()
		return nil
	}
	return m.openPane(logPane)
}

// toggleDescription opens the description of the chosen row, or closes it.
func (m *Model) toggleDescription() tea.Cmd {
	if m.pane.kind == descriptionPane {
		m.closePane()
		return nil
	}
	return m.openPane(descriptionPane)
}

func (m *Model) closePane() {
	m.stop()
	m.stream++
	m.pane, m.focus, m.ended = pane{}, false, false
}

// openPane opens a pane for the chosen row.
func (m *Model) openPane(kind paneKind) tea.Cmd {
	m.closePane()
	row, ok := m.list.row()
	if !ok {
		return nil
	}
	m.pane = pane{kind: kind, of: row, width: m.width}
	if kind == descriptionPane {
		m.pane.title = "Description of " + row.Name
		return m.describe(row)
	}
	m.nameLog()
	return m.beginLog(m.stream)
}

// nameLog gives the pane of a log its title. A person has to know that reading keeps a sandbox awake.
func (m *Model) nameLog() {
	m.pane.title = fmt.Sprintf("Log of %s, followed: this counts as use", m.pane.of.Name)
	if m.pane.of.Asleep() {
		m.pane.title = fmt.Sprintf("Log of %s as it was when it stopped", m.pane.of.Name)
	}
}

// follow has the pane show another row when another one is chosen, and the same one again when that has changed.
func (m *Model) follow() tea.Cmd {
	if m.pane.kind == noPane {
		return nil
	}
	row, ok := m.list.row()
	if !ok {
		m.closePane()
		return nil
	}
	if row.UID == m.pane.of.UID && !m.outdated(row) {
		return nil
	}
	kind, focus := m.pane.kind, m.focus
	m.closePane()
	m.pane, m.focus = pane{kind: kind, of: row, width: m.width}, focus
	if kind == descriptionPane {
		m.pane.title = "Description of " + row.Name
	} else {
		m.nameLog()
	}
	stream := m.stream
	return tea.Tick(settles, func(time.Time) tea.Msg { return beginLogMsg(stream) })
}

// outdated reports whether the pane's row has changed so that the pane does not show it any more. A log is another one
// when the sandbox wakes or goes to sleep; one that has ended, such as that of a sandbox without a data plane yet, may go
// on in another state.
func (m *Model) outdated(row Row) bool {
	changed := row.State != m.pane.of.State
	if m.pane.kind == logPane {
		return row.Asleep() != m.pane.of.Asleep() || m.ended && changed
	}
	return changed
}

// beginLogMsg says that a row has been the chosen one for long enough.
type beginLogMsg int

// beginLog begins to read what the pane shows, if that is still meant.
func (m *Model) beginLog(stream int) tea.Cmd {
	if stream != m.stream || m.pane.kind == noPane {
		return nil
	}
	if m.pane.kind == descriptionPane {
		return m.describe(m.pane.of)
	}
	var ctx context.Context
	ctx, m.stop = context.WithCancel(m.ctx)
	box := newMailbox[chunk](maxWaiting)
	row := m.pane.of
	read := func() tea.Msg {
		defer box.close()
		err := m.opts.Actions.Logs(ctx, row, func(text []byte, note bool) {
			box.put(chunk{append([]byte(nil), text...), note})
		})
		if err != nil && ctx.Err() == nil {
			box.put(chunk{[]byte(err.Error()), true})
		}
		return nil
	}
	return tea.Batch(read, nextLog(ctx, box, stream))
}

// nextLog waits for the next pieces of a log.
func nextLog(ctx context.Context, box *mailbox[chunk], stream int) tea.Cmd {
	return func() tea.Msg {
		chunks, dropped, more := box.take(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return logMsg{stream: stream, chunks: chunks, dropped: dropped, more: more, next: nextLog(ctx, box, stream)}
	}
}

// takeLog shows what a log has brought, and waits for more.
func (m *Model) takeLog(msg logMsg) tea.Cmd {
	if msg.stream != m.stream {
		return nil
	}
	m.pane.take(msg)
	if m.ended = !msg.more; m.ended {
		return nil
	}
	return msg.next
}

// describedMsg is a description.
type describedMsg struct {
	stream int
	text   string
	err    error
}

func (m *Model) describe(row Row) tea.Cmd {
	stream := m.stream
	return func() tea.Msg {
		text, err := m.opts.Actions.Describe(m.ctx, row)
		return describedMsg{stream, text, err}
	}
}

func (m *Model) described(msg describedMsg) {
	if msg.stream != m.stream {
		return
	}
	if msg.err != nil {
		msg.text = msg.err.Error()
	}
	m.pane.set(msg.text)
}
