// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// drawn are the sequences that the view itself writes, and those of colours.
var drawn = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// obeyed are texts that a terminal would act on.
var obeyed = []string{
	"\x1b[2J", "\x1b]0;title\x07", "\x1b]52;c;aGk=\x07", "\x9b2J", "\r\n", "\x00", "\x1bc", "\u202e", "\x1b[?1049l", "\u2028", "\x1b]8;;http://x\x1b\\",
	"\x1b[3", "\x1b", "\xff\xfe", "\b\b\b", "\x1b[10;10H", "\x1bP1$r\x1b\\",
}

// safe checks that the screen has no sequences but those of styles.
func (d *driver) safe() {
	d.t.Helper()
	text := drawn.ReplaceAllString(d.m.text(), "")
	for line := range strings.SplitSeq(text, "\n") {
		if termsafe.Line(line) != line {
			d.t.Errorf("a terminal would act on %q", line)
		}
	}
	if lines := strings.Count(text, "\n"); lines >= d.m.height {
		d.t.Errorf("%d lines", lines+1)
	}
}

func TestTextsOfOthersCannotDrawOnTheTerminal(t *testing.T) {
	for _, evil := range obeyed {
		t.Run(fmt.Sprintf("%q", evil), func(t *testing.T) {
			d := newDriver(t, 80, 24, func(o *Options) { o.Colours = true })
			row := Row{
				Resource: sandboxes, Kind: evil + "kind", Namespace: evil + "ns", Name: "a" + evil, UID: evil, Template: evil + "t",
				State: evil + "state", Start: evil, Reason: "state: because " + evil + " of it",
			}
			d.actions.log = "log" + evil + "\nnext" + evil + "\x1b[31mred\n" + evil + "end"
			d.feed.List(sandboxes, []Row{row})
			d.shows("state")
			d.safe()
			d.press("s")
			d.shows(": done")
			d.safe()
			d.press("l")
			d.shows("next")
			d.safe()
			d.press("D")
			d.safe()
			d.press("n", "d")
			d.shows("Name:   a")
			d.safe()
			d.press("/")
			d.send(tea.PasteMsg{Content: evil})
			d.safe()
			d.feed.Interrupt(evil+"x", evil+"reason")
			d.shows("Not watched")
			d.safe()
			d.m.say("", fmt.Errorf("an error with %s in it", evil))
			d.safe()
		})
	}
}

func FuzzTheLogOfAPane(f *testing.F) {
	for _, text := range obeyed {
		f.Add(text+"\x1b[1mx\n"+text, 20, 3)
	}
	f.Fuzz(func(t *testing.T, text string, width, cut int) {
		width = max(1, min(width, 200))
		p := pane{kind: logPane, width: width}
		cut = max(0, min(cut, len(text)))
		p.write([]byte(text[:cut]), false)
		p.write([]byte(text[cut:]), false)
		total := 0
		for _, n := range p.parts {
			total += n
		}
		if total != len(p.wrapped) || len(p.lines) != len(p.parts) {
			t.Fatalf("%d lines have %d parts, and there are %d", len(p.lines), total, len(p.wrapped))
		}
		for _, line := range p.view(10) {
			if plain := drawn.ReplaceAllString(line, ""); termsafe.Line(plain) != plain {
				t.Fatalf("a terminal would act on %q", line)
			}
		}
		p.resize(width/2 + 1)
		p.scroll(3, 10)
		p.view(10)
	})
}

func TestAPaneKeepsTheLastLines(t *testing.T) {
	p := pane{kind: logPane, width: 80}
	for i := range maxLines + 50 {
		p.write(fmt.Appendf(nil, "line %d is too long\n", i), false)
	}
	if len(p.lines) != maxLines || p.left != 50 || p.lines[0] != "line 50 is too long" {
		t.Errorf("%d lines, of which the first is %q", len(p.lines), p.lines[0])
	}
	if got := p.view(1)[0]; got != "line 1049 is too long" {
		t.Errorf("%q", got)
	}
	if got := p.position(2); got != "the last 1000 lines" {
		t.Error(got)
	}
}

func TestALineThatBeginsAgainReplacesItself(t *testing.T) {
	p := pane{kind: logPane, width: 80}
	for _, piece := range []string{"10 %", "\r20 %", "\r", "30 %\n", "next\n"} {
		p.write([]byte(piece), false)
	}
	if got := strings.Join(p.lines, "|"); got != "30 %|next" {
		t.Error(got)
	}
}

func TestALineWithoutAnEndIsBounded(t *testing.T) {
	p := pane{kind: logPane, width: 80}
	for range 1000 {
		p.write([]byte(strings.Repeat("x", 100)), false)
	}
	p.write([]byte("\nnext\n"), false)
	if len(p.lines) != 2 || len(p.lines[0]) > maxLineBytes+3 || !strings.HasSuffix(p.lines[0], "…") {
		t.Errorf("%d lines, of which the first has %d bytes", len(p.lines), len(p.lines[0]))
	}
}

func TestANoteStandsOnALineOfItsOwn(t *testing.T) {
	p := pane{kind: logPane, width: 80}
	p.write([]byte("half"), false)
	p.write([]byte("[12:00:00] the connection is lost\n"), true)
	p.write([]byte("other half\n"), false)
	p.take(logMsg{dropped: 7, chunks: []chunk{{text: []byte("x")}}})
	want := "half|[12:00:00] the connection is lost|other half|[7 pieces of the log came faster than they could be shown]|x"
	if got := strings.Join(p.lines, "|"); got != want {
		t.Error(got)
	}
}

func TestWhatIsReadStaysWhereItIsWhileTheLogGrows(t *testing.T) {
	p := pane{kind: logPane, width: 80}
	for i := range 50 {
		p.write(fmt.Appendf(nil, "line %d\n", i), false)
	}
	p.scroll(10, 5)
	before := strings.Join(p.view(5), "|")
	for i := range 50 {
		p.write(fmt.Appendf(nil, "more %d", i), false)
		p.write([]byte("!\n"), false)
	}
	if after := strings.Join(p.view(5), "|"); after != before {
		t.Errorf("%s, and before %s", after, before)
	}
}

func TestAThousandSandboxesCanBeWalkedThrough(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.thousand()
	d.press("end")
	if d.chosen() != "sandbox-0999" {
		t.Error(d.chosen())
	}
	d.fits()
	for range 60 {
		d.press("pgup")
	}
	if d.chosen() != "sandbox-0000" {
		t.Error(d.chosen())
	}
}

func (d *driver) thousand() {
	rows := make([]Row, 1000)
	for i := range rows {
		rows[i] = Row{Resource: sandboxes, Kind: "sandbox", Name: fmt.Sprintf("sandbox-%04d", i), UID: strconv.Itoa(i), State: "Ready", Created: noon.Add(-time.Duration(i) * time.Second)}
	}
	d.feed.List(sandboxes, rows)
	d.until("a thousand", func() bool { return len(d.m.list.rows) == 1000 })
}

// BenchmarkAThousandSandboxes is a change among a thousand rows, and the screen after it.
func BenchmarkAThousandSandboxes(b *testing.B) {
	m := New(b.Context(), Options{Feed: NewFeed(), Now: func() time.Time { return noon }})
	m.resize(120, 40)
	var events []event
	for i := range 1000 {
		events = append(events, event{resource: sandboxes, rows: []Row{{Resource: sandboxes, Name: strconv.Itoa(i), State: states[i%len(states)], Created: noon}}})
	}
	m.take(events)
	for b.Loop() {
		m.take(events[7:8])
		m.text()
	}
}
