// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

import "errors"

// ContentType marks a body of POST /sync that is a batch of frames.
const ContentType = "application/vnd.sandbar.sync.v1"

// Version is the version of the frames that this package speaks.
const Version = 1

// Op is what a frame does.
type Op string

// The operations.
const (
	OpBegin   Op = "begin"
	OpFile    Op = "file"
	OpData    Op = "data"
	OpCopy    Op = "copy"
	OpSymlink Op = "symlink"
	OpDir     Op = "dir"
	OpDelete  Op = "delete"
	// OpStage adds to content that is too large for one request: bytes that are kept under the
	// digest of the whole until a file of a later batch takes them. It stands alone in its stream.
	OpStage Op = "stage"
	OpEnd   Op = "end"
)

// MaxFrameBytes bounds one line. A path of the greatest length, written with JSON
// escapes throughout, twice, has room.
const MaxFrameBytes = 16 << 10

// Frame is one line of a batch. Which fields count depends on Op.
type Frame struct {
	Op Op `json:"op"`

	// Version, Revision and Restart belong to OpBegin. A Revision makes the batch
	// hold only if the workspace is at it. Restart is never, later, start,
	// auto or always.
	Version  int    `json:"version,omitempty"`
	Revision *int64 `json:"revision,omitempty"`
	Restart  string `json:"restart,omitempty"`

	// Path belongs to OpFile, OpSymlink, OpDir, OpDelete, and to OpCopy as the file
	// that is copied from.
	Path string `json:"path,omitempty"`
	// Expect is what must lie at Path before the batch; without it anything may.
	Expect *Entry `json:"expect,omitempty"`

	// Size and Digest belong to OpFile. Executable nil keeps the bit of the file
	// that is replaced.
	Size       int64  `json:"size,omitempty"`
	Digest     string `json:"digest,omitempty"`
	Executable *bool  `json:"executable,omitempty"`
	// Staged belongs to OpFile: the content is the one that was staged under Digest, and no piece
	// follows. OpStage has Size and Digest of the whole content, Offset and Length of its part.
	Staged bool `json:"staged,omitempty"`

	// Target belongs to OpSymlink.
	Target string `json:"target,omitempty"`

	// Recursive belongs to OpDelete: with it a directory goes with all below it,
	// without it only when the batch leaves it empty.
	Recursive bool `json:"recursive,omitempty"`

	// Length belongs to OpData, OpCopy and OpStage, Offset to OpCopy and OpStage.
	Offset int64 `json:"offset,omitempty"`
	Length int64 `json:"length,omitempty"`

	// Entries belongs to OpEnd: how many entries the batch has.
	Entries int `json:"entries,omitempty"`
}

// Staged reports how much of a content waits for a batch. It is the answer of
// GET /files?staged=DIGEST, and a part of that of a stream with OpStage.
type Staged struct {
	Digest string `json:"digest"`
	// Offset is how many bytes there are, from the beginning of the content on.
	Offset int64 `json:"offset"`
}

// FormError says that a batch does not have the right form.
type FormError struct{ Message string }

func (e *FormError) Error() string { return e.Message }

var (
	// ErrCut means that the batch ended before its end frame.
	ErrCut = &FormError{"the batch ends before its end frame"}

	// errOrder is a mistake of the caller of an [Encoder].
	errOrder = errors.New("the file before has not got all its bytes")
)
