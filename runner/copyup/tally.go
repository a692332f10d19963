// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
)

// progressEvery is the time between two lines of progress.
const progressEvery = 2 * time.Second

// tally counts what is done. Its methods may be called from any goroutine.
type tally struct {
	files, bytes           atomic.Int64
	totalFiles, totalBytes atomic.Int64 // 0 until the survey has ended

	mu     sync.Mutex
	result copywire.Result // of which the skipped and the unreadable are used
}

// skip counts a socket, a FIFO or a device.
func (t *tally) skip() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Skipped++
}

// skipMount counts a mount.
func (t *tally) skipMount(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Skipped++
	if len(t.result.Mounts) < copywire.MaxListed {
		t.result.Mounts = append(t.result.Mounts, path)
	}
}

// unread counts what the pod's user cannot read.
func (t *tally) unread(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Unreadable++
	if len(t.result.UnreadablePaths) < copywire.MaxListed {
		t.result.UnreadablePaths = append(t.result.UnreadablePaths, path)
	}
}

// sum returns what was counted so far.
func (t *tally) sum() copywire.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.result
	r.Files, r.Bytes = t.files.Load(), t.bytes.Load()
	return r
}

// follow writes the progress until ctx ends.
func (t *tally) follow(ctx context.Context, w io.Writer) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.print(w)
		}
	}
}

func (t *tally) print(w io.Writer) {
	if all := t.totalFiles.Load(); all > 0 {
		_, _ = fmt.Fprintf(w, "copy-up: %d of %d files, %s of %s\n", t.files.Load(), all, size(t.bytes.Load()), size(t.totalBytes.Load()))
		return
	}
	_, _ = fmt.Fprintln(w, "copy-up: counting the files")
}
