// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
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
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening the lock: %w", err)
		}
		if err := flock(f, &waiting); err != nil {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		// The last holder may have removed the file while we waited: then the
		// next comer locks another one, and both would believe to be alone.
		if current(f, path) {
			return &Locked{f}, nil
		}
		f.Close()
	}
}

func flock(f *os.File, waiting *func()) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		if *waiting != nil {
			(*waiting)()
			*waiting = nil
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	return err
}

func current(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(held, there)
}

// Unlock gives the lock back.
func (l *Locked) Unlock() { l.file.Close() }
