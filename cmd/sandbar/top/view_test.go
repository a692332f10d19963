// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sandbar-dev/sandbar/pkg/golden"
)

const appLog = "VITE v8.1.0  ready in 412 ms\n\n  \x1b[32m➜\x1b[0m  Local:   http://localhost:5173/\n" +
	"GET / 200 3.1 ms\nGET /src/main.js 200 1.2 ms\n\x1b[31mGET /favicon.ico 404 0.4 ms\x1b[0m\n"

func TestTheViewIsDrawnForEachSize(t *testing.T) {
	for _, test := range []struct {
		name          string
		width, height int
		keys          []string
		shows         string // before it is compared
	}{
		{"list", 100, 24, nil, ""},
		{"list-80x24", 80, 24, nil, ""},
		{"list-60x16", 60, 16, nil, ""},
		{"list-40x12", 40, 12, nil, ""},
		{"list-20x6", 20, 6, nil, ""},
		{"too-small", 18, 4, nil, ""},
		{"log-80x24", 80, 24, []string{"down", "down", "down", "l"}, "favicon"},
		{"log-40x12", 40, 12, []string{"down", "down", "down", "l"}, "favicon"},
		{"description-80x24", 80, 24, []string{"down", "d"}, "Name:   web"},
		{"filter", 80, 16, []string{"/", "s", "h", "o"}, ""},
		{"filter-kept", 80, 16, []string{"/", "s", "h", "o", "enter"}, ""},
		{"filter-nothing", 80, 16, []string{"/", "z", "z"}, ""},
		{"by-expiry", 80, 16, []string{"S", "S", "S", "S"}, ""},
		{"delete", 80, 16, []string{"D"}, ""},
		{"help", 80, 36, []string{"?"}, ""},
		{"help-40x12", 40, 12, []string{"?"}, ""},
		{"end", 80, 10, []string{"end"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDriver(t, test.width, test.height, nil)
			d.actions.log = appLog
			d.stock()
			d.press(test.keys...)
			if test.shows != "" {
				d.shows(test.shows)
			}
			golden.Check(t, filepath.Join("testdata", test.name+".golden"), []byte(d.screen()))
			d.fits()
		})
	}
}

// fits checks that the screen is exactly as large as the terminal.
func (d *driver) fits() {
	d.t.Helper()
	lines := strings.Split(d.m.text(), "\n")
	if len(lines) > d.m.height {
		d.t.Errorf("%d lines in a terminal of %d", len(lines), d.m.height)
	}
	for _, line := range lines {
		if width := ansi.StringWidth(line); width > d.m.width {
			d.t.Errorf("%d cells in a terminal of %d: %q", width, d.m.width, line)
		}
	}
}

func TestTheViewFitsEachTerminal(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.actions.log = appLog + strings.Repeat("wide 漢字 ", 200) + "\n"
	d.stock()
	d.feed.Interrupt(sandboxes, "connection refused")
	d.shows("Not watched")
	for _, key := range []string{"", "l", "tab", "d", "?", "/"} {
		if key != "" {
			d.press(key)
		}
		for width := 1; width < 130; width += 7 {
			for height := 1; height < 40; height += 3 {
				d.send(tea.WindowSizeMsg{Width: width, Height: height})
				d.fits()
			}
		}
	}
}

// The picture of the documentation is drawn from this file: make screens.
func TestThePicture(t *testing.T) {
	d := newDriver(t, 100, 28, func(o *Options) { o.Colours = true })
	d.actions.log = appLog
	d.stock()
	d.press("down", "down", "down", "l")
	d.shows("favicon")
	golden.Check(t, filepath.Join("testdata", "picture.golden"), []byte(strings.ReplaceAll(d.m.text(), "\x1b", "␛")+"\n"))
}

func TestWithoutColoursThereAreNone(t *testing.T) {
	d := newDriver(t, 100, 28, nil)
	d.stock()
	for sequence := range strings.SplitSeq(d.m.text(), "\x1b") {
		if strings.HasPrefix(sequence, "[3") || strings.HasPrefix(sequence, "[9") {
			t.Errorf("a colour: %q", sequence)
		}
	}
}

func TestAnEmptyListSaysWhatToDo(t *testing.T) {
	d := newDriver(t, 80, 10, nil)
	d.shows("Reading the sandboxes …")
	d.feed.List(sandboxes, nil)
	d.shows("There is no sandbox here. sandbar create makes one")
	d.feed.Interrupt(sandboxes, "forbidden")
	d.shows("No sandbox is known.")
}

func TestLongNamesAreCutAndColumnsGo(t *testing.T) {
	natural := [columnAge]int{columnName: 60, columnKind: 13, columnTemplate: 30, columnState: 9}
	for width, want := range map[int]string{
		200: "NAME:40 KIND:13 TEMPLATE:30 STATE:9 AGE:5 IDLE:6 EXPIRES:7 START:6",
		100: "NAME:16 KIND:13 TEMPLATE:30 STATE:9 AGE:5 IDLE:6 EXPIRES:7",
		80:  "NAME:28 KIND:13 STATE:9 AGE:5 IDLE:6 EXPIRES:7",
		50:  "NAME:21 STATE:9 AGE:5 EXPIRES:7",
		30:  "NAME:17 STATE:9",
		20:  "NAME:7 STATE:9",
	} {
		l := layoutOf(natural, width, false)
		var got []string
		for _, i := range l.columns {
			got = append(got, fmt.Sprintf("%s:%d", columnNames[i], l.widths[i]))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%d: %s, want %s", width, text, want)
		}
		if l.needs() > width-indent {
			t.Errorf("%d: it needs %d", width, l.needs())
		}
	}
}
