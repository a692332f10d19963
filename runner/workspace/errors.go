// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// Code says what kind of failure an [Error] is. The values are part of the
// runner's HTTP contract.
type Code string

const (
	// CodeInvalidPath means that the path may not name anything in a workspace.
	CodeInvalidPath Code = "InvalidPath"
	// CodeInvalidBatch means that the batch contradicts itself.
	CodeInvalidBatch Code = "InvalidBatch"
	// CodeConflict means that the tree has something else where the batch needs a
	// directory or a file.
	CodeConflict Code = "Conflict"
	// CodeTooManyFiles means more entries than [Limits.Files].
	CodeTooManyFiles Code = "TooManyFiles"
	// CodeFileTooLarge means a file of more than [Limits.FileBytes].
	CodeFileTooLarge Code = "FileTooLarge"
	// CodeBatchTooLarge means more bytes of content than [Limits.BatchBytes].
	CodeBatchTooLarge Code = syncwire.CodeBatchTooLarge
	// CodeRevisionMismatch means that the workspace is not at the revision that the
	// batch is for; [Error.Revision] is the one it is at.
	CodeRevisionMismatch Code = "RevisionMismatch"
	// CodeSourceChanged means that content which the client took for known is not
	// there, so that a copy does not give the promised file.
	CodeSourceChanged Code = "SourceChanged"
	// CodeOffsetMismatch means that a part of staged content does not begin where the part before
	// ended, or that another request works with the content. Asking how much there is helps.
	CodeOffsetMismatch Code = syncwire.CodeOffsetMismatch
	// CodeNoSpace means that the volume is full, or its quota is, or that the
	// workspace would exceed [Limits.TotalFiles] or [Limits.TotalBytes].
	CodeNoSpace Code = "InsufficientStorage"
	// CodeWatchLimit means that the workspace cannot be watched: it has too many
	// directories, or the node has no watch left.
	CodeWatchLimit Code = "WatchLimit"
	// CodePartiallyApplied means that a commit failed in the middle and could not be
	// undone; [Error.Applied] has the paths that remain changed.
	CodePartiallyApplied Code = "PartiallyApplied"
	// CodeFailed means that the file system refused for another reason. Nothing was
	// changed.
	CodeFailed Code = "WorkspaceFailure"
)

// maxQuotedPath bounds how much of a refused path comes back in a message.
const maxQuotedPath = 200

// Error is the failure of a batch.
type Error struct {
	Code Code
	// Path is the path of the batch that failed; empty when no single one did.
	Path    string
	Message string
	// Applied names the paths that remain changed, for [CodePartiallyApplied].
	Applied []string
	// Conflicts has every path at which the tree is not as the batch needs it.
	Conflicts []syncwire.Conflict
	// Revision is the current one, for [CodeRevisionMismatch].
	Revision int64
	// Err is the cause, if the file system was it.
	Err error
}

func (e *Error) Error() string {
	message := e.Message
	if e.Err != nil {
		// Only the error number: what the kernel or package os adds to it are
		// names inside the staging directory, which tell nobody anything.
		cause := e.Err
		var errno unix.Errno
		if errors.As(e.Err, &errno) {
			cause = errno
		}
		message = fmt.Sprintf("%s: %v", message, cause)
	}
	if e.Path == "" {
		return message
	}
	path := e.Path
	if len(path) > maxQuotedPath {
		path = path[:maxQuotedPath] + "…"
	}
	return fmt.Sprintf("%q: %s", path, message)
}

func (e *Error) Unwrap() error { return e.Err }

// conflictError is the one error for all conflicts of a batch.
func conflictError(conflicts []syncwire.Conflict) *Error {
	e := &Error{Code: CodeConflict, Path: conflicts[0].Path, Message: conflicts[0].Reason, Conflicts: conflicts}
	if more := len(conflicts) - 1; more > 0 {
		e.Message += fmt.Sprintf("; %d more paths conflict", more)
	}
	return e
}

// failed describes an error of the file system while handling path. What is an
// [*Error] already stays as it is.
func failed(path, doing string, err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &Error{Code: CodeNoSpace, Path: path, Message: "no space is left in the workspace", Err: err}
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return &Error{
			Code: CodeConflict, Path: path, Err: err,
			Message: syncwire.ReasonOnTheWay,
		}
	case errors.Is(err, unix.EXDEV):
		return &Error{
			Code: CodeConflict, Path: path, Err: err,
			Message: "the path lies on another volume than the workspace",
		}
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return &Error{
			Code: CodeConflict, Path: path, Err: err,
			Message: syncwire.ReasonDirectoryThere,
		}
	default:
		return &Error{Code: CodeFailed, Path: path, Message: doing, Err: err}
	}
}
