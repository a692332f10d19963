// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Locked is a held lock file. The kernel gives the lock back when its holder
// dies, so a killed command never blocks the next one.
type Locked struct{ file *os.File }

// Lock waits until path can be locked. When it must wait it calls waiting first.
func Lock(path string, waiting func()) (*Locked, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	how := unix.LOCK_EX | unix.LOCK_NB
	for {
		err = unix.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return &Locked{f}, nil
		case err == unix.EWOULDBLOCK && how&unix.LOCK_NB != 0:
			waiting()
			how = unix.LOCK_EX
		case err != unix.EINTR:
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
	}
}

// Unlock gives the lock back.
func (l *Locked) Unlock() { l.file.Close() }
