// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package devsync

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sandbar-dev/sandbar/runner/syncwire"
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
	// Read returns the content of a file. The caller closes it.
	Read(ctx context.Context, path string) (io.ReadCloser, error)
	// Chunks tells how a file is made up.
	Chunks(ctx context.Context, path string) (*syncwire.Chunks, error)
	// Apply sends the batch that write makes, all or nothing. write is called once, and what it
	// returns comes back as it is.
	Apply(ctx context.Context, restart string, write func(*syncwire.Encoder) error) (*Applied, error)
}

// Listing is what lies in the workspace.
type Listing struct {
	Tag     string
	Entries []syncwire.Entry
}

// Applied is what a batch did.
type Applied struct {
	Revision int64 `json:"revision"`
	// Restarted tells whether the process was restarted afterwards, RestartError why it could
	// not be.
	Restarted    bool   `json:"restarted"`
	RestartError string `json:"restartError"`
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
