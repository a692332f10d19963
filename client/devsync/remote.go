// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"fmt"
	"io"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// Remote is the workspace of a sandbox. Its errors are [*RemoteError]; any other error ends the
// engine's work.
type Remote interface {
	// List lists the workspace without what has one of the names in exclude, at any depth. It
	// returns nil when the listing still is the one with the tag known.
	List(ctx context.Context, exclude []string, known string) (*Listing, error)
	// Changes tells what changes in the workspace, without what has one of the names in exclude,
	// until the connection or the context ends. The first one, without an entry, comes when
	// nothing is missed any more.
	Changes(ctx context.Context, exclude []string, tell func(syncwire.Change)) error
	// Read returns the content of a file from an offset on. The caller closes it. With an offset, a
	// file that is not the one with the tag any more is Stale.
	Read(ctx context.Context, path string, offset int64, tag string) (*Content, error)
	// Chunks tells how a file is made up.
	Chunks(ctx context.Context, path string) (*syncwire.Chunks, error)
	// Apply sends the batch that write makes, all or nothing. write is called once, and what it
	// returns comes back as it is.
	Apply(ctx context.Context, restart string, write func(*syncwire.Encoder) error) (*Applied, error)
	// Staged reports how many bytes of the content with a digest wait in the workspace.
	Staged(ctx context.Context, digest string) (int64, error)
	// Stage sends a part of a content, and reports how many bytes wait then. write is as for Apply.
	Stage(ctx context.Context, write func(*syncwire.Encoder) error) (int64, error)
}

// Content is the content of a file.
type Content struct {
	io.ReadCloser
	// Tag is the SHA-256 of the whole file in hex, or another name of this version of it; empty if
	// the sandbox gave none.
	Tag string
	// Size is that of the whole file; -1 if it is not known.
	Size int64
	// Executable says that the file is a program; false as well if the sandbox did not say.
	Executable bool
}

// Listing is what lies in the workspace.
type Listing struct {
	Tag     string
	Entries []syncwire.Entry
	// Skipped counts what is there and is not among the entries: it cannot be named in a batch, lies too deep, or cannot
	// be read.
	Skipped int
}

// Applied is what a batch did.
type Applied struct {
	Revision int64
	// Restarted tells whether the process was restarted afterwards, RestartError why it could
	// not be.
	Restarted    bool
	RestartError string
}

// ErrorKind says what helps against an error.
type ErrorKind int

// The kinds.
const (
	// Unavailable: the workspace cannot be reached at the moment; try again later.
	Unavailable ErrorKind = iota
	// Stale: the workspace is not as the batch expects; list it again.
	Stale
	// Refused: the batch will never be accepted.
	Refused
	// Denied: the caller may not do this; nothing helps but somebody else.
	Denied
)

// RemoteError is why the workspace did not do something.
type RemoteError struct {
	Kind ErrorKind
	// Message is for people. It may come from inside the sandbox.
	Message string
	// Conflicts has the paths that are not as expected, for Stale; it may be empty.
	Conflicts []syncwire.Conflict
	// Suspended says, for Unavailable, that the sandbox stays away until somebody resumes it.
	Suspended bool
	// TooLarge says, for Refused, that the same in several requests may be taken.
	TooLarge bool
	// RetryAfter is how long to wait, for Unavailable; zero if nobody said.
	RetryAfter time.Duration
	Err        error
}

// Error implements error.
func (e *RemoteError) Error() string {
	if e.Message == "" && e.Err != nil {
		return e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *RemoteError) Unwrap() error { return e.Err }

// EmptiedError means that the directory is empty and was not before. The sandbox keeps its files.
type EmptiedError struct {
	Dir   string
	Files int // that the base has
}

// Error implements error.
func (e *EmptiedError) Error() string {
	return fmt.Sprintf("%s is empty and had files (%d): the sandbox keeps them, in case the directory was lost (--allow-empty deletes them there too)", e.Dir, e.Files)
}

// UnsettledError means that the two sides were compared again and again, and never were alike: files
// change faster than they travel. What did travel is noted.
type UnsettledError struct {
	// Paths are what was to be carried over last, in order; empty if all was, and something new came.
	Paths []string
}

// maxNamed is how many paths an error names.
const maxNamed = 5

// Error implements error.
func (e *UnsettledError) Error() string {
	text := fmt.Sprintf("not in sync after %d rounds: files change faster than they travel", maxRounds)
	if len(e.Paths) == 0 {
		return text
	}
	text += fmt.Sprintf(" (%q", e.Paths[:min(len(e.Paths), maxNamed)])
	if more := len(e.Paths) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + "); what a program writes all the time belongs in a .sandbarignore"
}
