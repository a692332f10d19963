// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The errors of ResolveTarget. Their texts follow "the symlink's target".
var (
	ErrTargetEmpty    = errors.New("is empty")
	ErrTargetAbsolute = errors.New("is absolute")
	ErrTargetOutside  = errors.New("leads outside of the tree")
	ErrTargetForm     = errors.New("has a control character, a backslash or bytes that are not UTF-8")
)

// ResolveTarget returns where the symlink at path leads, as a clean path of the tree; empty for its
// top. It goes by the text alone, so that every way to write a target counts as what it means:
// "./a", "a/" and "x/../a" are a. The link itself keeps the target as it is written.
//
// A step up behind a name, as in "x/../a", leads elsewhere if x is a symlink: see [ClimbsBehindName].
func ResolveTarget(path, target string) (string, error) {
	switch {
	case target == "":
		return "", ErrTargetEmpty
	case target[0] == '/':
		return "", ErrTargetAbsolute
	case !utf8.ValidString(target), strings.ContainsFunc(target, unicode.IsControl), strings.Contains(target, `\`):
		return "", ErrTargetForm
	}
	names := strings.Split(path, "/")
	names = names[:len(names)-1]
	for name := range strings.SplitSeq(target, "/") {
		switch name {
		case "", ".":
		case "..":
			if len(names) == 0 {
				return "", ErrTargetOutside
			}
			names = names[:len(names)-1]
		default:
			names = append(names, name)
		}
	}
	return strings.Join(names, "/"), nil
}

// ClimbsBehindName reports whether a target steps up behind a name. Where x in "x/.." leads, the file
// system decides and not the text: if x is a symlink to the top of the tree, the step leaves the tree.
// A side that puts another side's links beside its own files refuses such a target.
func ClimbsBehindName(target string) bool {
	named := false
	for name := range strings.SplitSeq(target, "/") {
		switch name {
		case "", ".":
		case "..":
			if named {
				return true
			}
		default:
			named = true
		}
	}
	return false
}
