// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestExecAtATerminalPassesKeysSizesAndInterrupts(t *testing.T) {
	w := newWorld(t)
	w.WithRunner(t, "")
	a := w.AtTerminal(t, "exec", "web", "-it", "--", "sh", "-c", `stty size; trap 'stty size' WINCH; read line; echo "<$line>"; while :; do sleep 0.01; done`)
	clitest.Await(t, a.Screen, "30 100\r\n")
	if raw := a.Mode(); raw.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Error("the terminal is not raw, so that keys would not reach the command one by one")
	}
	a.Press("typed\r")
	clitest.Await(t, a.Screen, "<typed>\r\n")
	a.Resize(40, 120)
	clitest.Await(t, a.Screen, "40 120\r\n")
	a.Press(clitest.CtrlC)
	a.Ends(130)
}

func TestATerminalIsRestoredWhenTheConnectionStaysLost(t *testing.T) {
	for name, end := range map[string]func(a *clitest.AtTerminal){
		"by an interrupt":                  func(a *clitest.AtTerminal) { a.Press(clitest.CtrlC) },
		"by a signal from somebody else":   func(a *clitest.AtTerminal) { _ = a.Process.Process.Signal(syscall.SIGTERM) },
		"by a window that is closed (HUP)": func(a *clitest.AtTerminal) { _ = a.Process.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.WithRunner(t, "")
			var gone atomic.Bool
			runner := w.Plane
			w.Serve(func(rw http.ResponseWriter, r *http.Request) {
				if gone.Load() {
					rw.WriteHeader(http.StatusBadGateway)
					return
				}
				runner(rw, r)
			})
			a := w.AtTerminal(t, "exec", "web", "-it", "--", "sh", "-c", "echo begun; exec sleep 1000")
			clitest.Await(t, a.Screen, "begun")
			gone.Store(true)
			w.Cut()
			clitest.Await(t, a.Screen, "Ctrl-C ends")
			end(a)
			a.Ends(cli.ExitInterrupted)
		})
	}
}

func TestDevAtATerminalEndsWithCtrlCAndLeavesTheTerminalAlone(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	w.WithRunner(t, `printf '\033[2Jcleared\n'; exec sleep 1000`)
	clitest.Put(t, dir, "a", "a")
	a := w.AtTerminal(t, "dev", "web", dir)
	clitest.Await(t, a.Screen, "in sync")
	if diff := cmp.Diff(a.Before, a.Mode()); diff != "" {
		t.Errorf("dev changes the terminal:\n%s", diff)
	}
	a.Press(clitest.CtrlC)
	a.Ends(cli.ExitInterrupted)
	if strings.Contains(a.Screen.String(), "\x1b[2J") {
		t.Error("the sandbox has cleared the screen")
	}
}
