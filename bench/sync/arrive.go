// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// arrivals notices that files come into place, by inotify on their directories. A reader that
// looks all the time would take from what is measured.
type arrivals struct{ fd int }

func newArrivals(dirs ...string) (*arrivals, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching the destination: %w", err)
	}
	a := &arrivals{fd: fd}
	for _, dir := range dirs {
		if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO|unix.IN_DELETE); err != nil {
			return nil, errors.Join(fmt.Errorf("watching the destination %s: %w", dir, err), a.close())
		}
	}
	return a, nil
}

func (a *arrivals) close() error { return unix.Close(a.fd) }

// until returns when done is true. It is asked each time that something happens, and every now
// and then.
func (a *arrivals) until(ctx context.Context, limit time.Duration, done func() bool) error {
	var buf [16 << 10]byte
	for late := time.Now().Add(limit); !done(); {
		switch _, err := unix.Poll([]unix.PollFd{{Fd: int32(a.fd), Events: unix.POLLIN}}, 50); {
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("watching the destination: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(late):
			return fmt.Errorf("it is not in place after %v", limit)
		}
		for {
			if n, err := unix.Read(a.fd, buf[:]); n <= 0 || err != nil {
				break
			}
		}
	}
	return nil
}

// has tells whether a file has a content.
func has(path string, content []byte) func() bool {
	return func() bool {
		// A large file is not read before it has its size.
		if info, err := os.Lstat(path); err != nil || info.Size() != int64(len(content)) {
			return false
		}
		got, err := os.ReadFile(path)
		return err == nil && bytes.Equal(got, content)
	}
}

// all tells whether the files are there with their sizes. It looks on from the first that was not.
func all(dir string, files map[string][]byte) func() bool {
	var paths []string
	for path := range files {
		paths = append(paths, path)
	}
	return func() bool {
		for len(paths) > 0 {
			info, err := os.Lstat(filepath.Join(dir, paths[0]))
			if err != nil || info.Size() != int64(len(files[paths[0]])) {
				return false
			}
			paths = paths[1:]
		}
		return true
	}
}
