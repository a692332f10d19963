// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// CopyContinued is the [Note] that the copy of a file goes on behind the bytes that an interrupted one has copied.
type CopyContinued struct {
	Path  string
	Bytes int64
	// Upload is true when the sandbox has these bytes, and false when this machine does.
	Upload bool
}

// CopyProgress is the [Note] of how much of a file was copied. There may be thousands for a file.
type CopyProgress struct {
	Path string
	Done int64
	// Size is -1 if it is not known.
	Size int64
}

// CopyEnded is the [Note] that the copy of a file, or of all of a pod's files, has ended, well or not.
type CopyEnded struct{ Path string }

// CopyInterrupted is the [Note] that a connection was lost. The copy goes on by itself after Retry.
type CopyInterrupted struct {
	Err   error
	Retry time.Duration
}

func (CopyContinued) isNote()   {}
func (CopyProgress) isNote()    {}
func (CopyEnded) isNote()       {}
func (CopyInterrupted) isNote() {}

// copyProgress sends the notes about one file.
type copyProgress struct {
	notes Notes
	path  string
	size  int64
	// begun: whether the copy goes on is known, and was told.
	begun bool
}

// newProgress is for a file of a size, or -1.
func newProgress(notes Notes, path string, size int64) *copyProgress {
	return &copyProgress{notes: notes, path: path, size: size}
}

// continued says, once, how much of the file was there before.
func (p *copyProgress) continued(n int64, upload bool) {
	if n > 0 && !p.begun {
		p.notes.send(CopyContinued{Path: p.path, Bytes: n, Upload: upload})
	}
	p.begun = true
}

// at says how much was copied.
func (p *copyProgress) at(done int64) {
	p.notes.send(CopyProgress{Path: p.path, Done: done, Size: p.size})
}

func (p *copyProgress) end() { p.notes.send(CopyEnded{p.path}) }
