// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package copywire is what `sandbar-runner copy-up` reports at its end: one JSON object in the termination message of its
// container, and an exit code. docs/runner.md describes both.
package copywire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MaxBytes bounds an encoded [Result]: Kubernetes keeps as much of a termination message.
const MaxBytes = 4096

const (
	// MaxListed bounds the paths that a [Result] lists, of each kind.
	MaxListed = 20
	// maxListedBytes bounds each of them; the rest is cut.
	maxListedBytes = 200
	// maxMessageBytes bounds the message.
	maxMessageBytes = 1024
)

// Reason says how a copy ended.
type Reason string

const (
	// Copied means that the volume has the files.
	Copied Reason = "Copied"
	// AlreadyCopied means that the volume has the files of an earlier copy, and nothing was changed.
	AlreadyCopied Reason = "AlreadyCopied"
	// VolumeTooSmall means that the files do not fit. A larger volume helps.
	VolumeTooSmall Reason = "VolumeTooSmall"
	// TargetNotEmpty means that the volume has files that no copy has brought. None of them was changed.
	TargetNotEmpty Reason = "TargetNotEmpty"
	// InvalidSource means that the source is missing, is not a directory, or is one that is not copied.
	InvalidSource Reason = "InvalidSource"
	// TreeTooLarge means that the source has more than the limits of docs/limits.md.
	TreeTooLarge Reason = "TreeTooLarge"
	// CopyFailed means that the file system has refused something. The next try may succeed.
	CopyFailed Reason = "CopyFailed"
	// Stopped means that the program was told to end. The next try begins from the start.
	Stopped Reason = "Stopped"
)

// exitCodes are the codes of the reasons. 2 is that of wrong usage, in all calls of the runner.
var exitCodes = map[Reason]int{
	Copied: 0, AlreadyCopied: 0, CopyFailed: 1, VolumeTooSmall: 3, TargetNotEmpty: 4, InvalidSource: 5, TreeTooLarge: 6, Stopped: 7,
}

// ExitCode returns the exit code of a reason, and 1 for one of another version.
func (r Reason) ExitCode() int {
	if code, ok := exitCodes[r]; ok {
		return code
	}
	return exitCodes[CopyFailed]
}

// Result is the outcome of a copy. The paths are relative to the source.
type Result struct {
	Reason Reason `json:"reason"`
	// Message is the outcome in words, without the reason.
	Message string `json:"message"`
	// Files counts what was copied of files and symbolic links; directories are not counted.
	Files int64 `json:"files"`
	// Bytes is the content that was copied; the holes of sparse files are not counted.
	Bytes int64 `json:"bytes"`
	// Skipped counts what is not copied: sockets, FIFOs, devices, and mounts, each with all below it.
	Skipped int64 `json:"skipped"`
	// Mounts are the first [MaxListed] mounts among the skipped.
	Mounts []string `json:"mounts,omitempty"`
	// Unreadable counts the files and directories that the pod's user cannot read.
	Unreadable int64 `json:"unreadable"`
	// UnreadablePaths are the first [MaxListed] of these; a directory ends in a slash.
	UnreadablePaths []string `json:"unreadablePaths,omitempty"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// Encode returns the result in at most [MaxBytes]. Long paths are cut, and paths that do not fit are left out; the counts
// are always there.
func (r Result) Encode() ([]byte, error) {
	r.Message = cut(r.Message, maxMessageBytes)
	r.Mounts, r.UnreadablePaths = cutAll(r.Mounts), cutAll(r.UnreadablePaths)
	for {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encoding the result: %w", err)
		}
		switch {
		case len(text) <= MaxBytes:
			return text, nil
		case len(r.Mounts) > len(r.UnreadablePaths):
			r.Mounts = r.Mounts[:len(r.Mounts)-1]
		case len(r.UnreadablePaths) > 0:
			r.UnreadablePaths = r.UnreadablePaths[:len(r.UnreadablePaths)-1]
		default:
			// A message of control characters alone, each of which has six bytes in JSON.
			r.Message = cut(r.Message, len(r.Message)/2)
		}
	}
}

// Parse reads what Encode wrote. Another program of the container can have written the text.
func Parse(text []byte) (Result, error) {
	if len(text) > MaxBytes {
		return Result{}, fmt.Errorf("the result has more than %d bytes", MaxBytes)
	}
	var r Result
	if err := json.Unmarshal(text, &r); err != nil {
		return Result{}, fmt.Errorf("reading the result: %w", err)
	}
	if r.Reason == "" {
		return Result{}, errors.New("reading the result: the reason is missing")
	}
	return r, nil
}

// cutAll returns the first [MaxListed] paths, each of at most maxListedBytes.
func cutAll(paths []string) []string {
	var all []string
	for _, path := range paths[:min(len(paths), MaxListed)] {
		all = append(all, cut(path, maxListedBytes))
	}
	return all
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "…"
}
