// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sandbar-dev/sandbar/pkg/golden"
)

// chosen is the name of the chosen row.
func (d *driver) chosen() string {
	row, _ := d.m.list.row()
	return row.Name
}

// names are those of the rows that are shown, in their order.
func (d *driver) names() string {
	var names []string
	for _, e := range d.m.list.shown {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func TestRowsAreGroupedByWhatNeedsSomebody(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.stock()
	if got := d.names(); got != "crawler web batch notes shop shop-canary worker api old" {
		t.Error(got)
	}
	for _, want := range []string{
		"api batch crawler notes old shop shop-canary web worker", // by name
		"batch notes crawler shop-canary web api shop worker old", // by age
		"notes shop-canary web shop worker old api batch crawler", // by idle time
		"old shop worker api batch crawler notes shop-canary web", // by expiry
		"crawler web batch notes shop shop-canary worker api old", // by state again
	} {
		d.press("S")
		if got := d.names(); got != want {
			t.Errorf("%s: %s, want %s", d.m.message, got, want)
		}
	}
}

func TestTheChosenRowStaysWhenOthersChange(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.stock()
	d.press("down", "down", "down", "down")
	if d.chosen() != "shop" {
		t.Fatal(d.chosen())
	}
	d.feed.Change(Row{Resource: sandboxes, Namespace: "default", Name: "aaa", UID: "1", State: "Failed"})
	d.until("the new row", func() bool { return strings.HasPrefix(d.names(), "aaa ") })
	if d.chosen() != "shop" {
		t.Errorf("%s is chosen after another row came", d.chosen())
	}
	d.feed.Change(Row{Resource: sandboxes, Namespace: "default", Name: "shop", UID: "uid-of-shop", State: "Suspending"})
	d.until("the other group", func() bool { return strings.Contains(d.names(), "shop-canary shop ") })
	if d.chosen() != "shop" {
		t.Errorf("%s is chosen after the row changed its group", d.chosen())
	}
	d.feed.Remove(Row{Resource: sandboxes, Namespace: "default", Name: "shop"})
	d.until("the end of the row", func() bool { return !strings.Contains(d.names(), "shop ") })
	if d.chosen() != "worker" {
		t.Errorf("%s is chosen after the row is gone, and not the one in its place", d.chosen())
	}
}

// The kinds of a workspace are listed one after the other.
func TestTheFirstRowIsChosenUntilAPersonChooses(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.feed.List(runners, []Row{{Resource: runners, Name: "web", State: "Ready"}})
	d.until("the first kind", func() bool { return d.chosen() == "web" })
	d.feed.List(sandboxes, []Row{{Resource: sandboxes, Name: "shop", State: "Failed"}})
	d.until("the second kind", func() bool { return d.chosen() == "shop" })
	d.press("down", "up", "down")
	d.feed.Change(Row{Resource: sandboxes, Name: "broken", State: "Failed"})
	d.until("another row", func() bool { return len(d.m.list.rows) == 3 })
	if d.chosen() != "web" {
		t.Error(d.chosen())
	}
}

func TestAListReplacesTheRowsOfItsKindAlone(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.stock()
	d.feed.List(runners, []Row{{Resource: runners, Name: "only", State: "Ready"}})
	d.until("the list", func() bool { return len(d.m.list.rows) == 7 })
	if got := d.names(); got != "batch only shop shop-canary worker api old" {
		t.Error(got)
	}
}

func TestTheFilterIsAppliedAsOneTypes(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.stock()
	d.press("/")
	for _, step := range []struct{ key, filter, names string }{
		{"S", "S", "crawler web batch notes shop shop-canary worker api old"},
		{"h", "Sh", "shop shop-canary"},
		{"space", "Sh ", "shop shop-canary"},
		{"c", "Sh c", "shop-canary"}, // a word of another column, or another of the name
		{"backspace", "Sh ", "shop shop-canary"},
		{"ctrl+w", "", "crawler web batch notes shop shop-canary worker api old"},
		{"q", "q", ""},
		{"ctrl+u", "", "crawler web batch notes shop shop-canary worker api old"},
	} {
		d.press(step.key)
		if d.m.list.filter != step.filter || d.names() != step.names {
			t.Errorf("%s: the filter %q shows %q", step.key, d.m.list.filter, d.names())
		}
	}
	d.send(tea.PasteMsg{Content: "suspended\n\x1b[2J"})
	if d.m.list.filter != `suspended\n\x1b[2J` {
		t.Errorf("%q", d.m.list.filter)
	}
	d.press("esc")
	if d.m.list.filter != "" || d.m.typing {
		t.Error("Esc does not take the filter away")
	}
	d.press("/", "s", "u", "s", "p", "down", "enter")
	if d.chosen() != "old" || d.m.list.filter != "susp" {
		t.Errorf("%s is chosen with %q", d.chosen(), d.m.list.filter)
	}
	d.press("/")
	d.send(tea.PasteMsg{Content: strings.Repeat("ä", maxFilter)})
	if len(d.m.list.filter) > maxFilter {
		t.Errorf("the filter has %d bytes", len(d.m.list.filter))
	}
}

func TestKeysActOnTheChosenRow(t *testing.T) {
	for key, want := range map[string]string{
		"s": "suspending shop", "r": "resuming shop", "R": "restarting shop", "n": "renewing shop", "N": "extending shop",
		"o": "opening shop", "x": "shell shop",
	} {
		d := newDriver(t, 80, 24, nil)
		d.stock()
		d.press("/", "s", "h", "o", "p", "enter", key)
		d.until(key, func() bool { return d.actions.called() == want })
		if key != "x" {
			d.shows("shop: done")
		}
		d.press("down")
		if d.m.message != "" {
			t.Errorf("%s: the message stays after the next key: %s", key, d.m.message)
		}
	}
}

func TestAnActionThatFailsSaysWhy(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.actions.fail = errRight
	d.stock()
	d.press("s")
	d.shows("for the right to patch sandboxes")
	golden.Check(t, filepath.Join("testdata", "forbidden.golden"), []byte(d.screen()))
}

func TestADeletionIsAskedFor(t *testing.T) {
	for _, test := range []struct{ answer, called, shows string }{
		{"n", "", "crawler is not deleted"},
		{"enter", "", "crawler is not deleted"},
		{"y", "deleting crawler", "crawler: done"},
	} {
		d := newDriver(t, 80, 24, nil)
		d.stock()
		d.press("D")
		d.shows("Delete the sandboxrunner crawler, with its volumes?")
		// Another row moves into the place of the one that the question is about.
		d.feed.Change(Row{Resource: sandboxes, Name: "aaa", State: "Failed", UID: "1"})
		d.until("another row", func() bool { return len(d.m.list.rows) == 10 })
		d.press(test.answer)
		d.shows(test.shows)
		if got := d.actions.called(); got != test.called {
			t.Errorf("%s: %s", test.answer, got)
		}
	}
}

func TestKeysWithoutARowDoNothing(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.feed.List(sandboxes, nil)
	d.shows("There is no sandbox here")
	d.press("s", "r", "R", "n", "N", "o", "x", "D", "l", "d", "enter", "up", "down", "pgup", "pgdown", "home", "end", "tab", "esc", "S")
	if got := d.actions.called(); got != "" || d.m.question != nil {
		t.Error(got)
	}
}

func TestALogIsFollowed(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	next := make(chan string)
	d.actions.log = "first\n"
	d.actions.follow = func(ctx context.Context, _ Row, send func([]byte, bool)) error {
		for {
			select {
			case text := <-next:
				send([]byte(text), false)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	d.stock()
	d.press("/", "n", "o", "t", "e", "s", "enter", "l")
	d.shows("first")
	next <- "half of "
	d.shows("half of")
	next <- "a line\n"
	d.shows("half of a line")
	d.press("l")
	if strings.Contains(d.screen(), "first") {
		t.Error("the pane is not closed")
	}
	if got := d.actions.called(); got != "log notes" {
		t.Error(got)
	}
}

// Reading a log counts as use, so that a person who walks down the list must not read them all.
func TestTheLogOfARowIsReadOnceItHasBeenTheChosenOneForAWhile(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.stock()
	d.press("l")
	d.until("the first log", func() bool { return d.actions.called() == "log crawler" })
	d.press("down", "down", "down", "down")
	d.until("the last log", func() bool { return strings.Contains(d.actions.called(), "log shop") })
	if got := d.actions.called(); got != "log crawler, log shop" {
		t.Error(got)
	}
	d.shows("Log of shop, followed: this counts as use")
}

func TestALogIsReadAgainWhenTheSandboxGoesToSleepOrWakes(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	row := Row{Resource: sandboxes, Name: "a", UID: "1", State: "Ready"}
	d.feed.List(sandboxes, []Row{row})
	d.until("the row", func() bool { return d.chosen() == "a" })
	d.press("l")
	d.until("the log", func() bool { return d.actions.called() == "log a" })
	row.State = "Degraded" // the same log
	d.feed.Change(row)
	d.shows("Degraded")
	row.State = "Sleeping"
	d.feed.Change(row)
	d.until("the kept log", func() bool { return d.actions.called() == "log a, log a" })
	d.shows("Log of a as it was when it stopped")
}

func TestALogThatCannotBeReadYetIsReadWhenTheStateChanges(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.actions.follow = func(context.Context, Row, func([]byte, bool)) error {
		return errors.New("a has no data plane yet")
	}
	row := Row{Resource: sandboxes, Name: "a", UID: "1", State: "Pending"}
	d.feed.List(sandboxes, []Row{row})
	d.until("the row", func() bool { return d.chosen() == "a" })
	d.press("l")
	d.shows("a has no data plane yet")
	d.until("the end of the log", func() bool { return d.m.ended })
	row.State = "Ready"
	d.feed.Change(row)
	d.until("the second try", func() bool { return d.actions.called() == "log a, log a" })
}

func TestAPaneGoesWithItsRow(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.feed.List(sandboxes, []Row{{Resource: sandboxes, Name: "a", UID: "1", State: "Ready"}})
	d.until("the row", func() bool { return d.chosen() == "a" })
	d.press("l")
	d.shows("Log of a")
	d.feed.List(sandboxes, nil)
	d.until("the end of the pane", func() bool { return !strings.Contains(d.screen(), "Log of a") })
}

func TestAnOldLogDoesNotReachTheNextPane(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.stock()
	d.press("l")
	old := d.m.stream
	d.press("d")
	d.shows("Name:   crawler")
	d.send(logMsg{stream: old, chunks: []chunk{{text: []byte("late\n")}}, more: true})
	if strings.Contains(d.screen(), "late") {
		t.Error("the log of another pane is shown")
	}
}

func TestAPaneIsScrolledWhenItHasTheKeys(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	var log strings.Builder
	for i := range 100 {
		fmt.Fprintf(&log, "line %02d\n", i)
	}
	d.actions.log = log.String()
	d.stock()
	d.press("l")
	d.shows("line 99")
	d.press("tab", "up")
	d.shows(" above, 1 below")
	if d.chosen() != "crawler" || strings.Contains(d.screen(), "line 99") {
		t.Errorf("%s is chosen\n%s", d.chosen(), d.screen())
	}
	d.press("home")
	d.shows("line 00")
	d.press("end")
	d.shows("line 99")
	d.press("pgup", "tab", "down")
	if d.chosen() != "web" {
		t.Error("Tab does not give the keys back to the list")
	}
}

func TestAWatchThatBreaksSaysSoAndComesBack(t *testing.T) {
	d := newDriver(t, 80, 24, nil)
	d.stock()
	d.feed.Interrupt(sandboxes, "dial tcp: connection refused\x1b[2J")
	d.feed.Interrupt(runners, "dial tcp: connection refused")
	d.shows("Not watched now, and tried again: sandboxes, sandboxrunners (dial tcp")
	if len(d.m.list.rows) != 9 {
		t.Error("what is known is not shown any more")
	}
	golden.Check(t, filepath.Join("testdata", "interrupted.golden"), []byte(d.screen()))
	d.feed.Resume(runners)
	d.shows("tried again: sandboxes (dial")
	d.feed.List(sandboxes, nil)
	d.until("the end of the trouble", func() bool { return !strings.Contains(d.screen(), "Not watched") })
}

func TestKeysThatLeave(t *testing.T) {
	for _, opened := range []string{"", "?", "/", "D"} {
		d := newDriver(t, 80, 24, nil)
		d.stock()
		if opened != "" {
			d.press(opened)
		}
		d.press("ctrl+c")
		d.until("the interrupt from "+opened, func() bool { return d.stopped })
	}
	d := newDriver(t, 80, 24, nil)
	d.press("q")
	d.until("the end", func() bool { return d.quit })
}

// A person presses Ctrl-L when the screen is not as it should be, and must not lose what it says.
func TestDrawingAgainChangesNothing(t *testing.T) {
	for _, opened := range [][]string{{"s"}, {"D"}, {"/", "x"}, {"?"}, {"l", "tab"}} {
		d := newDriver(t, 80, 24, nil)
		d.stock()
		d.press(opened...)
		before := d.screen()
		d.press("ctrl+l")
		if after := d.screen(); after != before {
			t.Errorf("after %v and Ctrl-L the screen is\n%s", opened, after)
		}
	}
}

func TestEachKeyHasOneMeaning(t *testing.T) {
	seen := map[string]string{}
	for _, s := range sections() {
		for _, b := range s.bindings {
			for _, key := range b.keys {
				if other, ok := seen[key]; ok {
					t.Errorf("%s is for %q and for %q", key, other, b.help)
				}
				seen[key] = b.help
			}
		}
	}
}

func TestAgesAreCountedAgain(t *testing.T) {
	now := noon
	d := newDriver(t, 80, 24, func(o *Options) { o.Now = func() time.Time { return now } })
	d.feed.List(sandboxes, []Row{{Resource: sandboxes, Name: "a", State: "Ready", Created: noon}})
	d.shows("0s")
	now = noon.Add(5 * time.Second)
	d.send(tickMsg{})
	d.shows("5s")
}
