// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// fullScreen is sandbar top on a terminal of its own.
type fullScreen struct {
	t    *testing.T
	keys io.Writer
	*screen
	// left is the exit code, once the program has ended.
	left chan int
}

// fullScreen begins sandbar top. script(1) of util-linux, which each Debian has, is its terminal.
func (s *terminal) fullScreen(args ...string) *fullScreen {
	s.t.Helper()
	line := "stty rows 30 cols 100; exec " + s.program + " top " + strings.Join(args, " ")
	cmd := exec.CommandContext(s.t.Context(), "script", "-qefc", line, "/dev/null")
	f := &fullScreen{t: s.t, screen: &screen{}, left: make(chan int, 1)}
	cmd.Env, cmd.Stdout, cmd.WaitDelay = append(s.env, "TERM=xterm-256color"), f.screen, 10*time.Second
	var err error
	if f.keys, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // the exit code says it
		f.left <- cmd.ProcessState.ExitCode()
	}()
	return f
}

func (f *fullScreen) press(keys string) {
	f.t.Helper()
	if _, err := io.WriteString(f.keys, keys); err != nil {
		f.t.Fatal(err)
	}
}

// shows waits until the screen has a word, and has it drawn again meanwhile: a program draws only what differs.
func (f *fullScreen) shows(word string) {
	f.t.Helper()
	mark := len(f.String())
	eventually(f.t, fmt.Sprintf("%q on the screen", word), func() error {
		drawn := f.String()[mark:]
		if strings.Contains(drawn, word) {
			return nil
		}
		mark += len(drawn)
		f.press("\x0c")
		return fmt.Errorf("there is %q", drawn)
	})
}

// TestTopShowsWhatHappensAndActs is the promise of the full screen: all sandboxes of a workspace, of every kind, with
// what happens to them as it happens; the log of one; and what a person does to it, by keys.
func TestTopShowsWhatHappensAndActs(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	f := s.fullScreen()
	f.shows("create") // there is none yet, and this is how to make one
	s.must("create", "sandboxrunner", "shop", "--set", "projectRef=e2e", "--set", "startCommand=echo the-log-of-shop; exec sleep 3600", "--set", "port=8080")
	created.Add(1)
	s.must("create", "redis", "cache", "--set", "suspended=true")
	created.Add(1)
	f.shows("cache")
	s.must("wait", "sandboxrunner", "shop")
	f.shows("Ready")
	f.press("/shop\r")
	f.shows("(Esc)")
	f.press("l")
	f.shows("the-log-of-shop")
	f.press("l")
	f.press("d")
	f.shows("Generation:")
	f.press("d")
	f.press("s")
	s.must("wait", "sandboxrunner", "shop", "--for", "Suspended")
	f.shows("Suspended")
	f.press("l")
	f.shows("stopped") // the log that was kept
	f.press("l")
	f.press("r")
	s.must("wait", "sandboxrunner", "shop")
	f.shows("Ready")
	f.press("x")
	await(t, f.screen, "\x1b[?1049l") // the terminal is the shell's from here on
	f.press("echo answer-$((40+2))\r")
	f.shows("answer-42")
	f.press("exit\r")
	f.shows("ended")
	uid := s.must("get", "sandboxrunner", "shop", "-o", "jsonpath={.metadata.uid}")
	f.press("D")
	f.shows("volumes?")
	f.press("y")
	waitGone(t, placement.ID{Origin: tn.cluster, UID: types.UID(uid)})
	f.shows("matches") // the filter has nothing left
	f.press("q")
	if code := <-f.left; code != 0 {
		t.Errorf("it ended with %d", code)
	}
	s.must("delete", "redis", "cache")
}
