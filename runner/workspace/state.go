// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// privateMode is for what of the runner's state nobody but its user reads.
const privateMode = 0o600

// state opens the directory in which the runner keeps what else outlives it.
func (w *Workspace) state() (directory, error) {
	return w.private(StateName)
}

// LoadState returns what SaveState kept under the name, and nothing when there is
// nothing, or more than limit bytes. The app can write it, so it is no more
// trustworthy than what a client sends.
func (w *Workspace) LoadState(name string, limit int64) ([]byte, error) {
	d, err := w.state()
	if err != nil {
		return nil, failed("", "opening the runner's state", err)
	}
	defer d.close()
	f, err := d.openRead(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, failed("", "reading the runner's state", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1)) //nolint:forbidigo // bounded by the caller
	if err != nil {
		return nil, failed("", "reading the runner's state", err)
	}
	if int64(len(content)) > limit {
		return nil, nil
	}
	return content, nil
}

// SaveState keeps content under a name, all of it or what was there before, for
// the runner's user alone.
func (w *Workspace) SaveState(name string, content []byte) error {
	d, err := w.state()
	if err != nil {
		return failed("", "opening the runner's state", err)
	}
	defer d.close()
	temporary := name + "." + rand.Text()
	f, err := d.create(temporary)
	if err == nil {
		err = unix.Fchmod(int(f.Fd()), privateMode)
		if err == nil {
			_, err = f.Write(content)
		}
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = d.rename(temporary, d, name)
	}
	if err == nil {
		err = d.sync()
	}
	if err != nil {
		_ = d.removeFile(temporary)
		return failed("", "keeping the runner's state", err)
	}
	return nil
}

// OpenState opens a file of the runner's state for reading and writing, and makes
// it if it is not there. What is no regular file is replaced.
func (w *Workspace) OpenState(name string) (*os.File, error) {
	d, err := w.state()
	if err != nil {
		return nil, failed("", "opening the runner's state", err)
	}
	defer d.close()
	for range 2 {
		fd, err := d.open(name, unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK, privateMode)
		if err == nil {
			f := os.NewFile(uintptr(fd), name)
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				return f, nil
			}
			_ = f.Close()
		}
		if err := d.removeTree(name); err != nil {
			return nil, failed("", "opening the runner's state", err)
		}
	}
	return nil, failed("", "opening the runner's state", fs.ErrInvalid)
}
