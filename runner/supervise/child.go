// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Child is a process beside the app, with a session of its own. Stopping the app
// leaves it alone.
type Child struct {
	reaper *Reaper
	pid    int
	exited <-chan unix.WaitStatus
}

// Start starts a process with the given files as its input, output and error. With
// terminal, the first of them becomes its controlling terminal.
func (r *Reaper) Start(args, env []string, dir string, files [3]*os.File, terminal bool) (*Child, error) {
	pid, exited, err := r.start(func() (int, error) {
		return syscall.ForkExec(args[0], args, &syscall.ProcAttr{
			Dir: dir, Env: env,
			Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()},
			Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: terminal, Ctty: 0},
		})
	})
	if err != nil {
		return nil, err
	}
	return &Child{reaper: r, pid: pid, exited: exited}, nil
}

// PID is the number of the process, and of its group and session.
func (c *Child) PID() int { return c.pid }

// Exited gets one value when the process has ended.
func (c *Child) Exited() <-chan unix.WaitStatus { return c.exited }

// Signal signals the process and its group. It does nothing once the process has
// been reaped.
func (c *Child) Signal(sig unix.Signal) { c.reaper.signalGroup(c.pid, sig) }

// KillRest kills what is left in the child's session after its end, and whatever
// is started there meanwhile. Who left the session is not found.
func (c *Child) KillRest() {
	for range 100 { // a session that forks faster than it is killed
		table, err := processes()
		if err != nil {
			return
		}
		found := false
		for _, p := range table {
			if p.session == c.pid && !p.gone() {
				found = true
				_ = unix.Kill(p.pid, unix.SIGKILL)
			}
		}
		if !found {
			return
		}
	}
}
