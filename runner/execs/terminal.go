// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package execs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Size of a terminal, in characters.
type Size struct{ Rows, Columns uint16 }

// openTerminal returns the two ends of a new terminal: ours, which honours
// deadlines, and the command's.
func openTerminal() (ours, theirs *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	ours = os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		_ = ours.Close()
		return nil, nil, fmt.Errorf("unlocking a terminal: %w", err)
	}
	// Not by its name in /dev/pts, which depends on what is mounted there.
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		_ = ours.Close()
		return nil, nil, fmt.Errorf("opening a terminal: %w", errno)
	}
	return ours, os.NewFile(peer, "terminal of the command"), nil
}

// resize tells a terminal its size.
func resize(terminal *os.File, size Size) error {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	if err := raw.Control(func(fd uintptr) {
		failure = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	}); err != nil {
		return err
	}
	return failure
}
