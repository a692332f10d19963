// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ringlog

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"
)

// partialDelay is how long the beginning of a line waits for its rest. Programs
// that write to a pipe in blocks cut lines anywhere; waiting a little keeps the
// lines of two streams whole, and a prompt without a newline still appears soon.
const partialDelay = 50 * time.Millisecond

// source is a pipe's read end. Deadlines let one goroutine both read and give up
// waiting for the rest of a line.
type source interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// Drain reads pipe until it ends and appends what it reads. It never stops
// reading while the pipe is open: an app whose pipe is full stands still. It
// returns nil at the end of the pipe, or when the pipe is closed under it.
func (r *Ring) Drain(src Source, pipe source) error {
	// The buffer holds one entry of the greatest length.
	buf := make([]byte, MaxEntryBytes)
	held := 0
	for {
		var deadline time.Time
		if held > 0 {
			deadline = time.Now().Add(partialDelay)
		}
		// A failure to set the deadline shows itself again in Read.
		_ = pipe.SetReadDeadline(deadline)
		n, err := pipe.Read(buf[held:])
		now := time.Now()
		held += n

		whole := bytes.LastIndexByte(buf[:held], '\n') + 1
		if whole == 0 && held == len(buf) || err != nil {
			whole = held
		}
		r.Append(src, now, buf[:whole])
		held = copy(buf, buf[whole:held])

		switch {
		case err == nil || errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed):
			return nil
		default:
			return err
		}
	}
}
