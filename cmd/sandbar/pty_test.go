// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestExecAtATerminalPassesKeysSizesAndInterrupts(t *testing.T) {
	w := newWorld(t)
	w.withRunner(t, "")
	a := w.atTerminal(t, "exec", "web", "-it", "--", "sh", "-c", `stty size; trap 'stty size' WINCH; read line; echo "<$line>"; while :; do sleep 0.01; done`)
	await(t, a.screen, "30 100\r\n")
	if raw := a.mode(); raw.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Error("the terminal is not raw, so that keys would not reach the command one by one")
	}
	a.press("typed\r")
	await(t, a.screen, "<typed>\r\n")
	a.resize(40, 120)
	await(t, a.screen, "40 120\r\n")
	a.press(ctrlC)
	a.ends(130)
}

func TestATerminalIsRestoredWhenTheConnectionStaysLost(t *testing.T) {
	for name, end := range map[string]func(a *atTerminal){
		"by an interrupt":                  func(a *atTerminal) { a.press(ctrlC) },
		"by a signal from somebody else":   func(a *atTerminal) { _ = a.process.Process.Signal(syscall.SIGTERM) },
		"by a window that is closed (HUP)": func(a *atTerminal) { _ = a.process.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withRunner(t, "")
			var gone atomic.Bool
			runner := w.plane
			w.serve(func(rw http.ResponseWriter, r *http.Request) {
				if gone.Load() {
					rw.WriteHeader(http.StatusBadGateway)
					return
				}
				runner(rw, r)
			})
			a := w.atTerminal(t, "exec", "web", "-it", "--", "sh", "-c", "echo begun; exec sleep 1000")
			await(t, a.screen, "begun")
			gone.Store(true)
			w.cut()
			await(t, a.screen, "Ctrl-C ends")
			end(a)
			a.ends(exitInterrupted)
		})
	}
}

func TestDevAtATerminalEndsWithCtrlCAndLeavesTheTerminalAlone(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	w.withRunner(t, `printf '\033[2Jcleared\n'; exec sleep 1000`)
	put(t, dir, "a", "a")
	a := w.atTerminal(t, "dev", "web", dir)
	await(t, a.screen, "in sync")
	if diff := cmp.Diff(a.before, a.mode()); diff != "" {
		t.Errorf("dev changes the terminal:\n%s", diff)
	}
	a.press(ctrlC)
	a.ends(exitInterrupted)
	if strings.Contains(a.screen.String(), "\x1b[2J") {
		t.Error("the sandbox has cleared the screen")
	}
}
