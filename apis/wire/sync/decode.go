// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Decoder reads a batch. It holds one frame and a small buffer, never a file.
type Decoder struct {
	in      *bufio.Reader
	began   bool
	ended   bool
	entries int
	// staging is set behind OpStage, which nothing but the end may follow.
	staging bool
	// missing is what the current file still lacks, unread what of the current data
	// frame has not been taken.
	missing int64
	unread  int64
}

// NewDecoder returns a decoder of the batch that r has.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{in: bufio.NewReaderSize(r, MaxFrameBytes)}
}

// Next returns the next frame. After OpFile come OpData and OpCopy until the file
// has its size; after OpData the caller takes the bytes with [Decoder.Read] until
// io.EOF. After OpEnd it returns io.EOF. A malformed batch is a [*FormError];
// errors of the reader come back as they are.
func (d *Decoder) Next() (Frame, error) {
	if d.unread > 0 {
		if _, err := io.CopyN(io.Discard, d, d.unread); err != nil {
			return Frame{}, err
		}
	}
	if d.ended {
		if _, err := d.in.ReadByte(); !errors.Is(err, io.EOF) {
			return Frame{}, cmp.Or[error](err, malformed("there is more after the end frame"))
		}
		return Frame{}, io.EOF
	}
	f, err := d.line()
	if err != nil {
		return Frame{}, err
	}
	return f, d.accept(&f)
}

// Read reads the bytes of the last data frame, and io.EOF behind them.
func (d *Decoder) Read(p []byte) (int, error) {
	if d.unread == 0 {
		return 0, io.EOF
	}
	n, err := d.in.Read(p[:min(int64(len(p)), d.unread)])
	d.unread -= int64(n)
	if errors.Is(err, io.EOF) {
		err = ErrCut
	}
	return n, err
}

// line reads and parses one line.
func (d *Decoder) line() (Frame, error) {
	text, err := d.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return Frame{}, malformed("a frame is longer than %d bytes", MaxFrameBytes)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Frame{}, ErrCut
	case err != nil:
		return Frame{}, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var f Frame
	if err := decoder.Decode(&f); err != nil {
		return Frame{}, malformed("a frame is not right: %s", Shorten(err.Error()))
	}
	// Package json replaces what is not UTF-8, and two names would become one.
	if strings.ContainsRune(f.Path, '\uFFFD') || strings.ContainsRune(f.Target, '\uFFFD') {
		return Frame{}, malformed("a name in a frame is not valid UTF-8, or holds U+FFFD")
	}
	if decoder.More() {
		return Frame{}, malformed("a line has more than one frame")
	}
	return f, nil
}

// accept checks a frame against what may come now.
func (d *Decoder) accept(f *Frame) error {
	if !d.began {
		if f.Op != OpBegin || f.Version != Version {
			return malformed("the first frame must be begin with version %d", Version)
		}
		d.began = true
		return nil
	}
	switch f.Op {
	case OpData, OpCopy:
		return d.piece(f)
	case OpFile, OpSymlink, OpDir, OpDelete, OpStage, OpEnd:
		if d.missing > 0 {
			return malformed("the file before %q lacks %d bytes", f.Op, d.missing)
		}
	default:
		return malformed("a frame has the operation %q", Shorten(string(f.Op)))
	}
	if f.Op == OpEnd {
		d.ended = true
		if f.Entries != d.entries {
			return malformed("the end frame counts %d entries, and %d came", f.Entries, d.entries)
		}
		return nil
	}
	if d.staging || f.Op == OpStage && d.entries > 0 {
		return malformed("a stage frame must be the only one between begin and end")
	}
	d.entries++
	if f.Expect != nil {
		if err := f.Expect.check(); err != nil {
			return err
		}
	}
	return d.content(f)
}

// content checks what a frame says of the content that follows it.
func (d *Decoder) content(f *Frame) error {
	switch f.Op {
	case OpFile:
		if f.Size < 0 || !ValidDigest(f.Digest) {
			return malformed("a file needs a size and a SHA-256 digest in lower-case hex")
		}
		if !f.Staged {
			d.missing = f.Size
		}
	case OpStage:
		if f.Size <= 0 || !ValidDigest(f.Digest) {
			return malformed("a stage frame needs the size of the whole content and its SHA-256 digest in lower-case hex")
		}
		if f.Offset < 0 || f.Length <= 0 || f.Length > f.Size || f.Offset > f.Size-f.Length {
			return malformed("a stage frame has %d bytes from %d on, of %d", f.Length, f.Offset, f.Size)
		}
		d.missing, d.staging = f.Length, true
	default: // nothing follows
	}
	return nil
}

// piece checks a part of a file.
func (d *Decoder) piece(f *Frame) error {
	if f.Length <= 0 || f.Length > d.missing {
		return malformed("a piece has %d bytes where 1 to %d belong", f.Length, d.missing)
	}
	d.missing -= f.Length
	if f.Op == OpData {
		d.unread = f.Length
	} else if f.Offset < 0 {
		return malformed("a copy begins at %d", f.Offset)
	}
	return nil
}

// check refuses an expectation that nothing could meet.
func (e *Entry) check() error {
	switch e.Type {
	case None, Dir, Symlink, Other:
		return nil
	case File:
		if ValidDigest(e.Digest) {
			return nil
		}
		return malformed("expect names a file without a SHA-256 digest in lower-case hex")
	default:
		return malformed("expect has the type %q", Shorten(string(e.Type)))
	}
}

func malformed(format string, args ...any) *FormError {
	return &FormError{Message: fmt.Sprintf(format, args...)}
}

// Shorten bounds what is repeated of a body in a message.
func Shorten(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
