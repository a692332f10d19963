// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

import (
	"encoding/hex"
	"time"
)

// Type is what kind of thing lies at a path.
type Type string

// The types.
const (
	// None means that nothing lies there.
	None    Type = "none"
	File    Type = "file"
	Symlink Type = "symlink"
	Dir     Type = "dir"
	// Other is a FIFO, a socket or a device. It is listed and never read.
	Other Type = "other"
)

// Entry says what lies at a path: in a listing, as what a client expects to
// replace, and as what was found instead.
type Entry struct {
	Path string `json:"path,omitempty"`
	Type Type   `json:"type"`
	// Size of a file in bytes.
	Size int64 `json:"size,omitempty"`
	// Digest is the SHA-256 of a file's content in lower-case hex. It is empty for a
	// file that is larger than the runner hashes.
	Digest     string `json:"digest,omitempty"`
	Executable bool   `json:"executable,omitempty"`
	// Target of a symlink, as it is written in it.
	Target string `json:"target,omitempty"`
	// ModTime of a file in a listing. It is no part of what is compared.
	ModTime *time.Time `json:"modTime,omitempty"`
}

// Same tells whether two entries are alike for a sync: type, content, executable
// bit and target. A file whose digest is not known is like nothing.
func (e Entry) Same(other Entry) bool {
	if e.Type != other.Type {
		return false
	}
	switch e.Type {
	case File:
		return e.Digest != "" && e.Digest == other.Digest && e.Executable == other.Executable
	case Symlink:
		return e.Target == other.Target
	default:
		return true
	}
}

// ListingHead is the first line of GET /files.
type ListingHead struct {
	Revision int64 `json:"revision"`
	// Digest stands for the whole listing: two listings with one digest, asked for
	// with the same parameters, are the same.
	Digest string `json:"digest"`
	// Entries counts the lines that follow.
	Entries int `json:"entries"`
	// Skipped counts what is there and cannot be named in a batch: names that are no
	// valid paths, and what lies too deep.
	Skipped int `json:"skipped,omitempty"`
}

// Conflict is one path at which the tree is not as the client expected.
type Conflict struct {
	Path string `json:"path"`
	// Reason says in words why the entry cannot be applied.
	Reason string `json:"reason"`
	// Expected is what the client said, if it said anything.
	Expected *Entry `json:"expected,omitempty"`
	// Actual is what lies there.
	Actual *Entry `json:"actual,omitempty"`
	// Wanted is what the batch would have put there; nil for a delete.
	Wanted *Entry `json:"wanted,omitempty"`
}

// Chunks is the answer of GET /files/PATH?chunks.
type Chunks struct {
	Digest string  `json:"digest"`
	Size   int64   `json:"size"`
	Chunks []Chunk `json:"chunks"`
}

// Chunk is one piece of a file. Chunks follow one another without a gap.
type Chunk struct {
	Length int64 `json:"length"`
	// ID is the beginning of the SHA-256 of the chunk, in hex. Two chunks with one
	// ID and length are taken for the same; the digest of the whole file is what
	// decides in the end.
	ID string `json:"id"`
}

// digestBytes is the length of a digest in hex.
const digestBytes = 64

// ValidDigest reports whether s is a SHA-256 digest in lower-case hex. It accepts one spelling only, so that digests compare as text.
func ValidDigest(s string) bool {
	if len(s) != digestBytes {
		return false
	}
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'F' {
			return false
		}
	}
	_, err := hex.DecodeString(s)
	return err == nil
}
