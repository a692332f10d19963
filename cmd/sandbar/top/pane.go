// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"bytes"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

const (
	// maxLines is how many lines of a log a pane keeps.
	maxLines = 1000
	// maxLineCells is how much of a line is kept, in cells of the terminal, and maxLineBytes is when that is looked at.
	maxLineCells = 2000
	maxLineBytes = 4 * maxLineCells
)

// paneKind is what a pane shows.
type paneKind int

const (
	noPane paneKind = iota
	logPane
	descriptionPane
)

// pane shows the lines of a text that may grow. What is written into it is safe for a terminal from then on.
type pane struct {
	kind  paneKind
	title string
	// of is the row that it is about, as it was.
	of Row

	lines []string
	// wrapped are the lines as the width has them, and parts how many of those each line has.
	wrapped []string
	parts   []int
	width   int
	// open reports whether the last line goes on; full, whether it has as much as is kept of a line.
	open, full bool
	output     termsafe.Output
	left       int // lines that were dropped

	// back is how many wrapped lines of a log are below those that are drawn; 0 follows the end. Other texts stand still:
	// first is their first line that is drawn.
	back, first int
}

// write adds a text that may end within a line. A note stands on lines of its own.
func (p *pane) write(text []byte, note bool) {
	if note {
		p.cutLine()
	}
	safe := p.output.Append(nil, text, nil)
	for line := range strings.Lines(string(safe)) {
		ended := strings.HasSuffix(line, "\n")
		p.add(strings.TrimSuffix(line, "\n"))
		if ended {
			p.endLine()
		}
	}
	if note {
		p.cutLine()
	}
}

// cutLine ends a line that the text has not ended. What was held of it is shown as what it is by itself.
func (p *pane) cutLine() {
	if held := p.output.EndLine(nil); len(held) > 0 {
		p.add(string(held))
	}
	if p.open {
		p.endLine()
	}
}

// add adds to the last line, or begins one.
func (p *pane) add(text string) {
	line, again := "", false
	if at := strings.LastIndex(text, termsafe.LineAgain); at >= 0 {
		text, again = text[at+len(termsafe.LineAgain):], true
	}
	if p.open {
		if p.full && !again {
			return
		}
		if !again {
			line = p.lines[len(p.lines)-1]
		}
		p.dropLast()
	}
	line += strings.ReplaceAll(text, "\t", "    ")
	if p.full = len(line) > maxLineBytes && ansi.StringWidth(line) > maxLineCells; p.full {
		line = ansi.Truncate(line, maxLineCells, "…")
	}
	p.open = true
	p.push(line)
}

func (p *pane) endLine() {
	if !p.open {
		p.push("")
	}
	p.open, p.full = false, false
}

// push adds a line, and drops the first one when there are too many.
func (p *pane) push(line string) {
	parts := wrap(line, p.width)
	p.lines, p.parts = append(p.lines, line), append(p.parts, len(parts))
	p.wrapped = append(p.wrapped, parts...)
	if p.back > 0 {
		p.back += len(parts) // what is drawn stays where it is
	}
	if len(p.lines) > maxLines {
		p.wrapped = p.wrapped[p.parts[0]:]
		p.lines, p.parts = p.lines[1:], p.parts[1:]
		p.left++
	}
}

func (p *pane) dropLast() {
	last := len(p.lines) - 1
	parts := p.parts[last]
	p.wrapped = p.wrapped[:len(p.wrapped)-parts]
	p.lines, p.parts = p.lines[:last], p.parts[:last]
	if p.back > 0 {
		p.back = max(1, p.back-parts)
	}
}

// set replaces the text by one that is whole.
func (p *pane) set(text string) {
	p.lines, p.wrapped, p.parts, p.open, p.full, p.left, p.first = nil, nil, nil, false, false, 0, 0
	p.output = termsafe.Output{}
	p.write([]byte(termsafe.String(text)), true)
}

// resize wraps the lines for another width.
func (p *pane) resize(width int) {
	if width == p.width {
		return
	}
	p.width, p.wrapped = width, nil
	for i, line := range p.lines {
		parts := wrap(line, width)
		p.parts[i] = len(parts)
		p.wrapped = append(p.wrapped, parts...)
	}
}

// wrap cuts a line into parts that are so many cells wide.
func wrap(line string, width int) []string {
	if width < 1 || len(line) <= width && strings.IndexByte(line, 0x1b) < 0 {
		return []string{line}
	}
	parts := strings.Split(ansi.Hardwrap(line, width, true), "\n")
	for i, part := range parts {
		if strings.IndexByte(part, 0x1b) >= 0 {
			parts[i] = part + ansi.ResetStyle // so that no colour reaches beyond the line
		}
	}
	return parts
}

// scroll moves up by so many lines, or down by a negative number. height is that of the pane.
func (p *pane) scroll(up, height int) {
	hidden := max(0, len(p.wrapped)-height)
	if p.kind != logPane {
		p.first = max(0, min(p.first-up, hidden))
		return
	}
	p.back = max(0, min(p.back+up, hidden))
}

// begin is the first line to draw in a pane of a height.
func (p *pane) begin(height int) int {
	if p.kind != logPane {
		return max(0, min(p.first, len(p.wrapped)-height))
	}
	return max(0, len(p.wrapped)-p.back-height)
}

// view returns the lines to draw, exactly as many as the pane is high.
func (p *pane) view(height int) []string {
	begin := p.begin(height)
	lines := make([]string, height)
	copy(lines, p.wrapped[begin:min(len(p.wrapped), begin+height)])
	return lines
}

// position says where in its text the pane is; nothing while all of it is seen or the end is followed.
func (p *pane) position(height int) string {
	begin := p.begin(height)
	switch below := len(p.wrapped) - begin - height; {
	case below > 0 && begin == 0:
		return fmt.Sprintf("%d more below", below)
	case below > 0:
		return fmt.Sprintf("%d above, %d below", begin, below)
	case p.kind == logPane && p.left > 0:
		return fmt.Sprintf("the last %d lines", len(p.lines))
	case p.kind != logPane && begin > 0:
		return fmt.Sprintf("%d above", begin)
	}
	return ""
}

// chunk is a piece of a log.
type chunk struct {
	text []byte
	// note reports whether it is about the log, and not of it.
	note bool
}

// logMsg has what a log stream brought.
type logMsg struct {
	stream  int
	chunks  []chunk
	dropped int
	// next waits for what follows, if more reports that there may be something.
	more bool
	next tea.Cmd
}

// take adds what a log brought to the pane.
func (p *pane) take(m logMsg) {
	if m.dropped > 0 {
		p.write(fmt.Appendf(nil, "[%d pieces of the log came faster than they could be shown]", m.dropped), true)
	}
	for _, c := range m.chunks {
		p.write(bytes.Clone(c.text), c.note)
	}
}
