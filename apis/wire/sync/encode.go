// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

import (
	"encoding/json"
	"io"
)

// Encoder writes a batch. The caller ends it with [Encoder.End]. The first error
// stays: all later calls return it too.
type Encoder struct {
	out     io.Writer
	entries int
	missing int64
	// copying is a copy that the next one may go on with.
	copying Frame
	err     error
}

// NewEncoder begins a batch. revision nil makes it hold at any revision.
func NewEncoder(w io.Writer, revision *int64, restart string) *Encoder {
	e := &Encoder{out: w}
	_ = e.write(Frame{Op: OpBegin, Version: Version, Revision: revision, Restart: restart})
	return e // a failure stays, and comes back from all that follows
}

// Entry adds a frame of OpFile, OpSymlink, OpDir, OpDelete or OpStage. After OpStage, and OpFile
// without Staged, the caller adds the pieces with [Encoder.Data] and [Encoder.Copy].
func (e *Encoder) Entry(f Frame) error {
	if e.missing > 0 && e.err == nil {
		e.err = errOrder
	}
	e.entries++
	switch {
	case f.Op == OpFile && !f.Staged:
		e.missing = f.Size
	case f.Op == OpStage:
		e.missing = f.Length
	}
	return e.write(f)
}

// Data adds bytes to the current file.
func (e *Encoder) Data(p []byte) error {
	if len(p) == 0 {
		return e.err
	}
	e.missing -= int64(len(p))
	if e.write(Frame{Op: OpData, Length: int64(len(p))}) == nil {
		_, e.err = e.out.Write(p)
	}
	return e.err
}

// Copy adds a range of a file that the workspace has. Ranges that follow one another
// become one frame: a delta is mostly the file as it was, chunk by chunk.
func (e *Encoder) Copy(path string, offset, length int64) error {
	e.missing -= length
	if c := &e.copying; c.Length > 0 && c.Path == path && c.Offset+c.Length == offset {
		c.Length += length
		return e.err
	}
	if e.flush() == nil {
		e.copying = Frame{Op: OpCopy, Path: path, Offset: offset, Length: length}
	}
	return e.err
}

// flush writes the copy that waits.
func (e *Encoder) flush() error {
	if c := e.copying; c.Length > 0 {
		e.copying = Frame{}
		return e.write(c)
	}
	return e.err
}

// End ends the batch.
func (e *Encoder) End() error {
	if e.missing != 0 && e.err == nil {
		e.err = errOrder
	}
	return e.write(Frame{Op: OpEnd, Entries: e.entries})
}

func (e *Encoder) write(f Frame) error {
	if err := e.flush(); err != nil {
		return err
	}
	line, err := json.Marshal(f)
	if err == nil {
		_, err = e.out.Write(append(line, '\n'))
	}
	e.err = err
	return err
}
