// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is when the tests' views are drawn.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// recorded are actions that note what they are asked for.
type recorded struct {
	mu    sync.Mutex
	calls []string
	// fail is the error of all actions.
	fail error
	// log is what a log has, and follow what it does then.
	log    string
	follow func(ctx context.Context, row Row, send func([]byte, bool)) error
}

func (r *recorded) note(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func (r *recorded) called() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.calls, ", ")
}

func (r *recorded) Do(_ context.Context, action Action, row Row) (string, error) {
	r.note(doing[action] + " " + row.Name)
	return row.Name + ": done", r.fail
}

func (r *recorded) Describe(_ context.Context, row Row) (string, error) {
	r.note("describe " + row.Name)
	return "Name:   " + row.Name + "\nState:  " + row.Reason + "\n" + strings.Repeat("more\n", 40), r.fail
}

func (r *recorded) Logs(ctx context.Context, row Row, send func([]byte, bool)) error {
	r.note("log " + row.Name)
	send([]byte(r.log), false)
	if r.follow != nil {
		return r.follow(ctx, row, send)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (r *recorded) Shell(_ context.Context, row Row) tea.ExecCommand {
	r.note("shell " + row.Name)
	return nil
}

// driver runs a model as a program does, without a terminal.
type driver struct {
	t       *testing.T
	m       *Model
	feed    *Feed
	actions *recorded
	ctx     context.Context
	msgs    chan tea.Msg
	running sync.WaitGroup
	quit    bool
	stopped bool // interrupted
}

func newDriver(t *testing.T, width, height int, change func(*Options)) *driver {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := &driver{t: t, feed: NewFeed(), actions: &recorded{}, ctx: ctx, msgs: make(chan tea.Msg)}
	t.Cleanup(func() {
		cancel()
		d.running.Wait()
	})
	opts := Options{
		Feed: d.feed, Actions: d.actions, Place: "root:me  namespace default", Now: func() time.Time { return noon },
	}
	if change != nil {
		change(&opts)
	}
	d.m = New(ctx, opts)
	d.run(d.m.opts.Feed.next(ctx)) // without the tick, which only draws again
	d.send(tea.WindowSizeMsg{Width: width, Height: height})
	return d
}

func (d *driver) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	d.running.Go(func() {
		msg := cmd()
		if batch, ok := msg.(tea.BatchMsg); ok {
			for _, c := range batch {
				d.run(c)
			}
			return
		}
		select {
		case d.msgs <- msg:
		case <-d.ctx.Done():
		}
	})
}

func (d *driver) send(msg tea.Msg) {
	switch msg.(type) {
	case tea.QuitMsg:
		d.quit = true
	case tea.InterruptMsg:
		d.stopped = true
	}
	_, cmd := d.m.Update(msg)
	d.run(cmd)
}

// until lets the program run until something is so.
func (d *driver) until(what string, so func() bool) {
	d.t.Helper()
	late := time.After(time.Minute)
	for !so() {
		select {
		case msg := <-d.msgs:
			d.send(msg)
		case <-late:
			d.t.Fatalf("%s: it does not come to that; the screen shows\n%s", what, d.screen())
		}
	}
}

// shows lets the program run until the screen has a text.
func (d *driver) shows(text string) {
	d.t.Helper()
	d.until(text, func() bool { return strings.Contains(d.screen(), text) })
}

// screen is what is drawn, without styles and without the spaces at the ends of lines.
func (d *driver) screen() string {
	lines := strings.Split(ansi.Strip(d.m.text()), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// press presses keys: names such as "enter", or single characters.
func (d *driver) press(keys ...string) {
	d.t.Helper()
	for _, key := range keys {
		d.send(keyOf(key))
	}
}

func keyOf(name string) tea.KeyPressMsg {
	codes := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "pgup": tea.KeyPgUp,
		"pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace, "delete": tea.KeyDelete,
	}
	if letter, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(letter[0]), Mod: tea.ModCtrl}
	}
	if code, ok := codes[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if name == "space" {
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

const sandboxes, runners = "sandboxes.sandbar.dev", "sandboxrunners.sandbar.dev"

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// stock are sandboxes of two kinds in many states.
func (d *driver) stock() {
	d.t.Helper()
	const day = 24 * time.Hour
	sandbox := func(name, state, reason, start string, created, used, shutdown time.Duration) Row {
		r := Row{
			Resource: sandboxes, Kind: "sandbox", Namespace: "default", Name: name, UID: "uid-of-" + name, Template: "node-22",
			State: state, Reason: reason, Start: start, Created: ago(created),
		}
		if used != 0 {
			r.Used = ago(used)
		}
		if shutdown != 0 {
			r.Shutdown = noon.Add(shutdown)
		}
		return r
	}
	app := func(name, toolchain, state, reason string, created, used time.Duration) Row {
		r := sandbox(name, state, reason, "", created, used, 0)
		r.Resource, r.Kind, r.Template = runners, "sandboxrunner", toolchain
		return r
	}
	d.feed.List(sandboxes, []Row{
		sandbox("shop", "Ready", "Ready", "Warm", 3*day, 12*time.Minute, 9*time.Hour),
		sandbox("shop-canary", "Ready", "Ready", "Cold", 5*time.Hour, 20*time.Second, 0),
		sandbox("api", "Suspended", "Suspended: suspended by its tenant", "Warm", 2*day, 0, 0),
		sandbox("worker", "Sleeping", "Sleeping: nobody has used it for 30m; the next request wakes it", "Warm", 9*day, 4*day, 20*day),
		sandbox("batch", "PendingCapacity", "PendingCapacity: the runtime cluster has no room for a pod with 4 CPUs now; it is tried again", "Cold", 40*time.Second, 0, 0),
		sandbox("old", "Suspended", "Suspended: its shutdown time has passed", "Cold", 30*day, 12*day, -2*day),
	})
	d.feed.List(runners, []Row{
		app("web", "node", "Degraded", "Degraded: the process exited with code 1 and is started again\nError: Cannot find module 'vite'", 26*time.Hour, time.Minute),
		app("notes", "python", "Ready", "Ready", 90*time.Second, 15*time.Second),
		app("crawler", "go", "Failed", "Failed: there is no image for the toolchain go: choose node or python", 3*time.Minute, 0),
	})
	d.until("the list", func() bool { return len(d.m.list.rows) == 9 })
}

var errRight = errors.New("the workspace root:me denies the kubeconfig's user alice access: ask the owner of the workspace for the right to patch sandboxes")
