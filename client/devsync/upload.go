// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

const (
	// partBytes is how much of a large file goes in one request, unless the data plane takes less.
	partBytes = 32 << 20
	// MinPartBytes is the least of a large file, in bytes, that is sent in one request.
	MinPartBytes = 64 << 10
	// partSpan bounds a part together with what the sandbox copies for it.
	partSpan = 1 << 30
	// frameBytes is how much of a part one frame carries.
	frameBytes = 256 << 10
)

// Upload stages content in a workspace, in parts over several requests: a file of a batch takes it
// then (syncwire.Frame.Staged). What the workspace has already, of a connection that broke or of a
// program that was interrupted, is not sent again. The digest of the whole decides in the end.
type Upload struct {
	Remote  Remote
	Content io.ReaderAt
	Size    int64
	Digest  string
	// OnProgress is told how much of the content the workspace has; nil for nobody.
	OnProgress func(done int64)
	// OnLost is told that the workspace cannot be reached and is tried again after a time; nil for
	// nobody.
	OnLost func(err error, retry time.Duration)
	// Resumed is how much was there when Run asked first, Sent counts the bytes that were sent.
	Resumed, Sent int64

	// path and runs say what of the content the workspace has at a path; nil for nothing.
	path string
	runs []run
	// check is called before each part; an error ends the upload.
	check func() error

	part, done int64
	asked      bool
}

// run is a range of content: new, or a copy of what lies at from in the workspace's version.
type run struct{ length, from int64 }

// isNew is the from of a run that has to be sent.
const isNew = -1

// Run stages the content.
func (u *Upload) Run(ctx context.Context) error {
	u.part = cmp.Or(u.part, partBytes)
	if u.runs == nil {
		u.runs = []run{{u.Size, isNew}}
	}
	for tries, wait := 1, firstPause; ; tries, wait = tries+1, wait*2 {
		before := u.done
		err := u.try(ctx)
		if err == nil {
			return nil
		}
		if isTooLarge(err) && u.part/2 >= MinPartBytes {
			u.part /= 2
			tries, wait = 0, firstPause/2
			continue
		}
		if u.done > before {
			tries, wait = 1, firstPause
		}
		if !unavailable(err) || tries >= onceTries || ctx.Err() != nil {
			return err
		}
		wait = max(wait, retryAfter(err))
		if u.OnLost != nil {
			u.OnLost(err, wait)
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// try goes on where the workspace says that it is.
func (u *Upload) try(ctx context.Context) error {
	offset, err := u.Remote.Staged(ctx, u.Digest)
	if err != nil {
		return err
	}
	if !u.asked {
		u.asked, u.Resumed = true, offset
	}
	for offset < u.Size {
		u.tell(offset)
		if u.check != nil {
			if err := u.check(); err != nil {
				return err
			}
		}
		frame := syncwire.Frame{Op: syncwire.OpStage, Digest: u.Digest, Size: u.Size, Offset: offset, Length: u.length(offset)}
		offset, err = u.Remote.Stage(ctx, func(out *syncwire.Encoder) error {
			if err := out.Entry(frame); err != nil {
				return err
			}
			sent, err := writeRuns(out, u.Content, u.path, u.runs, frame.Offset, frame.Offset+frame.Length)
			u.Sent += sent
			if err != nil {
				return err
			}
			return out.End()
		})
		if err != nil {
			return err
		}
	}
	u.tell(offset)
	return nil
}

func (u *Upload) tell(done int64) {
	u.done = max(u.done, done)
	if u.OnProgress != nil {
		u.OnProgress(done)
	}
}

// length is how much of the content the next part has: as much as one request may carry.
func (u *Upload) length(offset int64) int64 {
	length, left := int64(0), u.part
	eachRun(u.runs, offset, min(u.Size, offset+partSpan), func(r run, _ int64) error {
		if left == 0 {
			return nil
		}
		if r.from == isNew {
			r.length = min(r.length, left)
			left -= r.length
		}
		length += r.length
		return nil
	})
	return length
}

// eachRun calls do for what of the runs lies between two offsets, with where it begins.
func eachRun(runs []run, begin, end int64, do func(r run, at int64) error) {
	at := int64(0)
	for _, r := range runs {
		from, to := max(at, begin), min(at+r.length, end)
		if from < to {
			part := run{to - from, r.from}
			if r.from != isNew {
				part.from += from - at
			}
			if do(part, from) != nil {
				return
			}
		}
		at += r.length
	}
}

// writeRuns writes what of the content lies between two offsets, and returns how much of it was
// sent. Content that became shorter is errMoved.
func writeRuns(out *syncwire.Encoder, content io.ReaderAt, path string, runs []run, begin, end int64) (sent int64, err error) {
	buffer := make([]byte, min(frameBytes, end-begin))
	eachRun(runs, begin, end, func(r run, at int64) error {
		if r.from != isNew {
			err = out.Copy(path, r.from, r.length)
			return err
		}
		for r.length > 0 {
			data := buffer[:min(r.length, int64(len(buffer)))]
			if n, readErr := content.ReadAt(data, at); n < len(data) {
				err = readErr
				if errors.Is(err, io.EOF) {
					err = errMoved
				}
				return err
			}
			if err = out.Data(data); err != nil {
				return err
			}
			n := int64(len(data))
			sent, at, r.length = sent+n, at+n, r.length-n
		}
		return nil
	})
	return sent, err
}

// isTooLarge reports whether a request was more than the data plane, or the runner, takes in one.
func isTooLarge(err error) bool {
	var remote *RemoteError
	return errors.As(err, &remote) && remote.TooLarge
}
