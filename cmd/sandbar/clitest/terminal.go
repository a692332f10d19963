// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package clitest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// AtTerminal is the real program with a real terminal of its own.
type AtTerminal struct {
	// T is the test, Screen what the program has written, Before the terminal as it was, and Process the program.
	T        *testing.T
	keyboard *os.File // our end
	theirs   *os.File
	Screen   *LockedBuffer
	Before   unix.Termios
	Process  *exec.Cmd
	shown    chan struct{} // closed when all output is read
}

// AtTerminal runs a command line with a terminal of its own.
func (w *World) AtTerminal(t *testing.T, args ...string) *AtTerminal {
	t.Helper()
	process := exec.Command(os.Args[0], append([]string{"--kubeconfig", w.Kubeconfig, "--trust-file", w.Trust}, args...)...)
	process.Env = append(os.Environ(), AsSandbar+"=1")
	return StartAtTerminal(t, process)
}

// StartAtTerminal starts a program with a terminal of its own, which is ended when the test ends.
func StartAtTerminal(t *testing.T, process *exec.Cmd) *AtTerminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := &AtTerminal{T: t, keyboard: ours, Screen: &LockedBuffer{}, Process: process, shown: make(chan struct{})}
	a.control(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0) })
	a.control(func(fd int) error {
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			return errno
		}
		a.theirs = os.NewFile(peer, "terminal")
		return nil
	})
	a.Resize(30, 100)
	a.Before = a.Mode()
	a.Process.Stdin, a.Process.Stdout, a.Process.Stderr = a.theirs, a.theirs, a.theirs
	a.Process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := a.Process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(a.shown)
		for buffer := make([]byte, 4096); ; {
			n, err := ours.Read(buffer)
			_, _ = a.Screen.Write(buffer[:n])
			if err != nil {
				return // EIO, when nobody has the other end any more
			}
		}
	}()
	t.Cleanup(func() {
		_ = a.Process.Process.Kill()
		_ = a.Process.Wait()
		_ = a.theirs.Close()
		<-a.shown
		_ = ours.Close()
	})
	return a
}

func (a *AtTerminal) control(do func(fd int) error) {
	a.T.Helper()
	raw, err := a.keyboard.SyscallConn()
	if err != nil {
		a.T.Fatal(err)
	}
	var failure error
	if err := raw.Control(func(fd uintptr) { failure = do(int(fd)) }); err != nil || failure != nil {
		a.T.Fatal(err, failure)
	}
}

// Resize gives the terminal another size.
func (a *AtTerminal) Resize(rows, columns uint16) {
	a.T.Helper()
	a.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
}

// Mode is how the terminal is set.
func (a *AtTerminal) Mode() unix.Termios {
	a.T.Helper()
	mode, err := unix.IoctlGetTermios(int(a.theirs.Fd()), unix.TCGETS)
	if err != nil {
		a.T.Fatal(err)
	}
	return *mode
}

// Press types keys.
func (a *AtTerminal) Press(keys string) {
	a.T.Helper()
	if _, err := a.keyboard.WriteString(keys); err != nil {
		a.T.Fatal(err)
	}
}

// Ends waits for the program's end, and checks that the terminal is as it was.
func (a *AtTerminal) Ends(code int) {
	a.T.Helper()
	stuck := time.AfterFunc(30*time.Second, func() { _ = a.Process.Process.Kill() })
	defer stuck.Stop()
	_ = a.Process.Wait() // the exit code says it
	if got := a.Process.ProcessState.ExitCode(); got != code {
		a.T.Errorf("exit code %d, want %d; the screen shows %q", got, code, a.Screen)
	}
	if diff := cmp.Diff(a.Before, a.Mode()); diff != "" {
		a.T.Errorf("the terminal is not as it was (-before +after):\n%s", diff)
	}
}

// CtrlC is the key that interrupts.
const CtrlC = "\x03"

// Program starts the real program, as a shell does.
func (w *World) Program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"--kubeconfig", w.Kubeconfig, "--trust-file", w.Trust}, args...)...)
	cmd.Env = append(os.Environ(), AsSandbar+"=1")
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	return cmd
}
