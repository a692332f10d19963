// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// countAge is how long a count of the tree is believed: the app makes files too.
	countAge = time.Minute
	// countMargin is the part of a limit within which every batch counts anew.
	countMargin = 10
)

// usage is what a tree takes.
type usage struct{ files, bytes int64 }

// used remembers the last count of the tree.
type used struct {
	mu      sync.Mutex
	current usage
	counted time.Time
}

// grow notes what a batch added, without counting.
func (u *used) grow(by usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.current.files += by.files
	u.current.bytes += by.bytes
}

// admit refuses a batch that would make the workspace larger than it may be.
// committing is locked. Counting takes a look at every file, so it is done when a
// minute has passed, or when the limit is near.
func (w *Workspace) admit(by usage) error {
	if by.files <= 0 && by.bytes <= 0 {
		return nil // whoever makes room is never refused
	}
	u := &w.used
	u.mu.Lock()
	defer u.mu.Unlock()
	near := func(now, more, limit int64) bool { return now+more >= limit-limit/countMargin }
	if time.Since(u.counted) > countAge ||
		near(u.current.files, by.files, w.limits.TotalFiles) || near(u.current.bytes, by.bytes, w.limits.TotalBytes) {
		counted, err := w.count()
		if err != nil {
			return failed("", "counting the workspace", err)
		}
		u.current, u.counted = counted, time.Now()
	}
	if n := u.current.files + by.files; by.files > 0 && n > w.limits.TotalFiles {
		return &Error{
			Code:    CodeNoSpace,
			Message: fmt.Sprintf("the workspace would have %d files and directories; the limit is %d", n, w.limits.TotalFiles),
		}
	}
	if n := u.current.bytes + by.bytes; by.bytes > 0 && n > w.limits.TotalBytes {
		return &Error{
			Code:    CodeNoSpace,
			Message: fmt.Sprintf("the workspace would have %d bytes; the limit is %d bytes", n, w.limits.TotalBytes),
		}
	}
	return nil
}

// count adds up the tree, without the staging directory.
func (w *Workspace) count() (usage, error) {
	var total usage
	_, err := w.scan(nil, func(_ directory, _, _ string, st *unix.Stat_t) error {
		total.files++
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			// What it takes and not what it says: a sparse file says what it likes.
			total.bytes += st.Blocks * 512
		}
		return nil
	})
	return total, err
}
