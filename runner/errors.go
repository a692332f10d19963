// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/runner/supervise"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

// apiError is the body of every answer that is not a success.
type apiError struct {
	status  int
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Applied []string `json:"applied,omitempty"`
	// Conflicts has every path at which the tree is not as a batch needs it.
	Conflicts []syncwire.Conflict `json:"conflicts,omitempty"`
	// Revision is the current one, when the batch was for another.
	Revision *int64 `json:"revision,omitempty"`
	// ExitCode is what a shell exits with for a command that could not be started.
	ExitCode int `json:"exitCode,omitempty"`
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

// wire is the error as part of an answer that is none.
func (e *apiError) wire() *syncwire.Error {
	return &syncwire.Error{Code: e.Code, Message: e.Message, Applied: e.Applied, Conflicts: e.Conflicts, Revision: e.Revision}
}

func malformed(format string, args ...any) *apiError {
	return &apiError{
		status: http.StatusBadRequest, Code: "MalformedRequest", Message: fmt.Sprintf(format, args...),
	}
}

func tooLarge(limit int64) *apiError {
	return &apiError{
		status: http.StatusRequestEntityTooLarge, Code: syncwire.CodeRequestTooLarge,
		Message: fmt.Sprintf("the body is larger than the limit of %d bytes; send it in several batches", limit),
	}
}

var (
	errUnauthorized = &apiError{
		status: http.StatusUnauthorized, Code: "Unauthorized",
		Message: "one header is needed, " + controlproof.Header + " with a proof or " + TokenHeader + " with the token; it is missing or not accepted",
	}
	errNotFound = &apiError{
		status: http.StatusNotFound, Code: "NotFound", Message: "there is no such endpoint",
	}
	errBusy = &apiError{
		status: http.StatusTooManyRequests, Code: "TooManyRequests",
		Message: "too many requests of this kind are in progress; try again",
	}
	errInternal = &apiError{
		status: http.StatusInternalServerError, Code: "InternalError", Message: "the runner failed; its log says more",
	}
)

// workspaceStatus has the HTTP status of each kind of workspace error.
var workspaceStatus = map[workspace.Code]int{
	workspace.CodeInvalidPath:      http.StatusBadRequest,
	workspace.CodeInvalidBatch:     http.StatusBadRequest,
	workspace.CodeConflict:         http.StatusConflict,
	workspace.CodeTooManyFiles:     http.StatusRequestEntityTooLarge,
	workspace.CodeFileTooLarge:     http.StatusRequestEntityTooLarge,
	workspace.CodeBatchTooLarge:    http.StatusRequestEntityTooLarge,
	workspace.CodeRevisionMismatch: http.StatusConflict,
	workspace.CodeSourceChanged:    http.StatusConflict,
	workspace.CodeOffsetMismatch:   http.StatusConflict,
	workspace.CodeNoSpace:          http.StatusInsufficientStorage,
	workspace.CodeWatchLimit:       http.StatusUnprocessableEntity,
	workspace.CodePartiallyApplied: http.StatusInternalServerError,
	workspace.CodeFailed:           http.StatusInternalServerError,
}

// classify is the one place that decides what an error is to a caller.
func classify(err error) *apiError {
	var (
		known *apiError
		batch *workspace.Error
		start *supervise.StartError
		form  *syncwire.FormError
		size  *http.MaxBytesError
	)
	if e := classifyExec(err); e != nil {
		return e
	}
	var refused controlproof.RefusedError
	switch {
	case errors.As(err, &refused):
		return errUnauthorized
	case errors.As(err, &known):
		return known
	case errors.As(err, &batch):
		e := &apiError{
			status: workspaceStatus[batch.Code], Code: string(batch.Code),
			Message: batch.Error(), Applied: batch.Applied, Conflicts: batch.Conflicts,
		}
		if batch.Code == workspace.CodeRevisionMismatch {
			e.Revision = &batch.Revision
		}
		return e
	case errors.As(err, &form):
		return malformed("%s", form.Message)
	case errors.As(err, &size):
		return tooLarge(size.Limit)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("the body ends too early")
	case errors.As(err, &start):
		return &apiError{status: http.StatusInternalServerError, Code: "StartFailed", Message: start.Error()}
	case errors.Is(err, supervise.ErrNotConfigured):
		return &apiError{status: http.StatusConflict, Code: "NotConfigured", Message: err.Error()}
	case errors.Is(err, supervise.ErrStopped):
		return &apiError{status: http.StatusServiceUnavailable, Code: "ShuttingDown", Message: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &apiError{
			status: http.StatusGatewayTimeout, Code: "RestartTimeout",
			Message: "the app did not stop and start in time; the restart goes on",
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &apiError{
			status: http.StatusRequestTimeout, Code: "RequestTimeout",
			Message: fmt.Sprintf("the body did not arrive within %s, or nothing of it for %s", bodyTimeout, stallTimeout),
		}
	default:
		return errInternal
	}
}

// writeError answers with err. Nothing is sent when the answer has begun.
func writeError(w http.ResponseWriter, err error) {
	e := classify(err)
	if e.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	var refused controlproof.RefusedError
	if errors.As(err, &refused) {
		w.Header().Set(controlproof.RefusedHeader, string(refused))
	}
	writeJSON(w, e.status, e)
}

// writeJSON answers with a value that is known to marshal.
func writeJSON(w http.ResponseWriter, status int, value any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	// A stranger's connection must not be held by an answer that nobody reads. It
	// fails where a connection has no deadlines, and none can be set.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(status)
	// A client that is gone is nobody to tell.
	_ = json.NewEncoder(w).Encode(value) //nolint:errchkjson // our own plain structs
}
