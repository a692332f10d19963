// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// atTerminal is the real program with a real terminal of its own.
type atTerminal struct {
	t        *testing.T
	keyboard *os.File // our end
	theirs   *os.File
	screen   *lockedBuffer
	before   unix.Termios
	process  *exec.Cmd
	shown    chan struct{} // closed when all output is read
}

func (w *world) atTerminal(t *testing.T, args ...string) *atTerminal {
	t.Helper()
	process := exec.Command(os.Args[0], append([]string{"--kubeconfig", w.kubeconfig, "--trust-file", w.trust}, args...)...)
	process.Env = append(os.Environ(), asSandbar+"=1")
	return startAtTerminal(t, process)
}

// startAtTerminal starts a program with a terminal of its own, which is ended when the test ends.
func startAtTerminal(t *testing.T, process *exec.Cmd) *atTerminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := &atTerminal{t: t, keyboard: ours, screen: &lockedBuffer{}, process: process, shown: make(chan struct{})}
	a.control(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0) })
	a.control(func(fd int) error {
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			return errno
		}
		a.theirs = os.NewFile(peer, "terminal")
		return nil
	})
	a.resize(30, 100)
	a.before = a.mode()
	a.process.Stdin, a.process.Stdout, a.process.Stderr = a.theirs, a.theirs, a.theirs
	a.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := a.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(a.shown)
		for buffer := make([]byte, 4096); ; {
			n, err := ours.Read(buffer)
			_, _ = a.screen.Write(buffer[:n])
			if err != nil {
				return // EIO, when nobody has the other end any more
			}
		}
	}()
	t.Cleanup(func() {
		_ = a.process.Process.Kill()
		_ = a.process.Wait()
		_ = a.theirs.Close()
		<-a.shown
		_ = ours.Close()
	})
	return a
}

func (a *atTerminal) control(do func(fd int) error) {
	a.t.Helper()
	raw, err := a.keyboard.SyscallConn()
	if err != nil {
		a.t.Fatal(err)
	}
	var failure error
	if err := raw.Control(func(fd uintptr) { failure = do(int(fd)) }); err != nil || failure != nil {
		a.t.Fatal(err, failure)
	}
}

func (a *atTerminal) resize(rows, columns uint16) {
	a.t.Helper()
	a.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
}

func (a *atTerminal) mode() unix.Termios {
	a.t.Helper()
	mode, err := unix.IoctlGetTermios(int(a.theirs.Fd()), unix.TCGETS)
	if err != nil {
		a.t.Fatal(err)
	}
	return *mode
}

func (a *atTerminal) press(keys string) {
	a.t.Helper()
	if _, err := a.keyboard.WriteString(keys); err != nil {
		a.t.Fatal(err)
	}
}

// ends waits for the program's end, and checks that the terminal is as it was.
func (a *atTerminal) ends(code int) {
	a.t.Helper()
	stuck := time.AfterFunc(30*time.Second, func() { _ = a.process.Process.Kill() })
	defer stuck.Stop()
	_ = a.process.Wait() // the exit code says it
	if got := a.process.ProcessState.ExitCode(); got != code {
		a.t.Errorf("exit code %d, want %d; the screen shows %q", got, code, a.screen)
	}
	if diff := cmp.Diff(a.before, a.mode()); diff != "" {
		a.t.Errorf("the terminal is not as it was (-before +after):\n%s", diff)
	}
}

const ctrlC = "\x03"

// program starts the real program, as a shell does.
func (w *world) program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"--kubeconfig", w.kubeconfig, "--trust-file", w.trust}, args...)...)
	cmd.Env = append(os.Environ(), asSandbar+"=1")
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	return cmd
}
