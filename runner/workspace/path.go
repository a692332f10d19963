// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

const (
	// StagingName is the directory at the top of the workspace where files wait
	// for their batch. It may not be synced to or deleted.
	StagingName = ".sandbar"

	// MaxPathBytes bounds a whole path.
	MaxPathBytes = 1024
	// MaxPathDepth bounds the number of names in a path.
	MaxPathDepth = 64
	// MaxNameBytes bounds one name; it is also the limit of Linux file systems.
	MaxNameBytes = 255
	// MaxTargetBytes bounds the target of a symlink.
	MaxTargetBytes = 1024
)

// CheckPath returns nil when path may name something in a workspace: relative,
// clean, valid UTF-8 without control characters, separated by single slashes,
// within the limits, and not in the staging directory. It looks at the text
// alone. Its error is an [*Error] with [CodeInvalidPath].
func CheckPath(path string) error {
	switch {
	case path == "":
		return invalid(path, "the path is empty")
	case len(path) > MaxPathBytes:
		return invalid(path, fmt.Sprintf("the path is longer than %d bytes", MaxPathBytes))
	case !utf8.ValidString(path):
		return invalid(path, "the path is not valid UTF-8")
	case strings.ContainsFunc(path, unicode.IsControl):
		return invalid(path, "the path contains a control character")
	case strings.Contains(path, `\`):
		// Legal on Linux, but nearly always a path of a Windows client that
		// would become one file with an odd name.
		return invalid(path, `the path contains a backslash; separate names by "/"`)
	case path[0] == '/':
		return invalid(path, "the path is absolute; paths are relative to the workspace")
	}
	names := strings.Split(path, "/")
	if len(names) > MaxPathDepth {
		return invalid(path, fmt.Sprintf("the path is more than %d names deep", MaxPathDepth))
	}
	for _, name := range names {
		switch {
		case name == "":
			return invalid(path, "the path has an empty name: a doubled or a trailing slash")
		case name == "." || name == "..":
			return invalid(path, `the path contains "." or ".."`)
		case len(name) > MaxNameBytes:
			return invalid(path, fmt.Sprintf("a name in the path is longer than %d bytes", MaxNameBytes))
		}
	}
	// Compared without regard to case for file systems that do so too.
	if strings.EqualFold(names[0], StagingName) {
		return invalid(path, fmt.Sprintf("%q is reserved", StagingName))
	}
	return nil
}

// CheckTarget returns nil when the symlink at path may have the target: relative,
// and inside the workspace. It counts where the target leads by its text, not how it
// is written. What the app makes of the link's surroundings later is not known here,
// and nothing in this package follows one.
func CheckTarget(path, target string) error {
	if len(target) > MaxTargetBytes {
		return invalid(path, fmt.Sprintf("the target of the symlink is longer than %d bytes", MaxTargetBytes))
	}
	to, err := syncwire.ResolveTarget(path, target)
	if err != nil {
		return invalid(path, "the target of the symlink "+err.Error())
	}
	if to == "" {
		return nil // the workspace itself
	}
	if err := CheckPath(to); err != nil {
		return invalid(path, "the target of the symlink is not a path inside the workspace: "+failed("", "", err).Message)
	}
	return nil
}

func invalid(path, message string) *Error {
	return &Error{Code: CodeInvalidPath, Path: path, Message: message}
}
