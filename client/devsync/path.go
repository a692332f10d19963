// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// reserved is the runner's own directory at the top of the workspace.
const reserved = ".sandbar"

// incoming begins the names of files that are being received. Such a name is never synced.
const incoming = ".sandbar-incoming-"

// CheckName returns why a path may not be synced, in either direction; empty when it may. What
// comes from the sandbox is chosen by whoever runs code in it: a path must not lead out of the
// directory, nor into a repository's own files, whose hooks and configuration are programs that the
// person's own git, hg or jj would run (CVE-2014-9390 has the spellings). On Windows it must be a name that Windows can
// have.
func CheckName(path string) string {
	if reason := CheckForm(path); reason != "" {
		return reason
	}
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case isRepository(name):
			return "it belongs to a repository's own files"
		case strings.HasPrefix(name, incoming):
			return "the name is reserved"
		}
		if reason := checkSystem(name); reason != "" {
			return reason
		}
	}
	return ""
}

// CheckForm returns why no workspace can have a path, by its form alone; empty when one can.
func CheckForm(path string) string {
	switch {
	case path == "" || path[0] == '/':
		return "it is no relative path"
	case !utf8.ValidString(path) || strings.ContainsRune(path, utf8.RuneError):
		return "the name is not valid UTF-8"
	case strings.ContainsAny(path, "\n\r"):
		return "the name contains a line break: rename it"
	case strings.ContainsFunc(path, unicode.IsControl):
		return "the name contains a control character"
	case strings.Contains(path, `\`):
		return "the name contains a backslash"
	}
	names := strings.Split(path, "/")
	for _, name := range names {
		if name == "" || name == "." || name == ".." {
			return "the path is not clean"
		}
	}
	if strings.EqualFold(names[0], reserved) {
		return "the name is reserved"
	}
	return ""
}

// repositories are the directories in which version control keeps what is its own. Their hooks and configuration
// name programs that a person's own tool runs, and to be synced by two sides damages them.
var repositories = []string{".git", ".hg", ".svn", ".jj", ".sl", ".bzr", "_darcs", ".pijul"}

// isRepository reports whether a file system somewhere may take a name for one of repositories: without regard to
// case (macOS, Windows), without invisible characters (HFS+), as short name or with dots, spaces or a stream at
// the end (NTFS).
func isRepository(name string) bool {
	name = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	return name == "git~1" || slices.Contains(repositories, name)
}

// CheckTarget returns why a symlink at path may not be sent with a target; empty when it may. It counts
// where the target leads, not how it is written: a link out of the directory would lead nowhere on the
// other side.
func CheckTarget(path, target string) string {
	to, err := syncwire.ResolveTarget(path, target)
	switch {
	case errors.Is(err, syncwire.ErrTargetAbsolute):
		return "the symlink's target is not relative"
	case errors.Is(err, syncwire.ErrTargetOutside):
		return "the symlink leads out of the directory"
	case err != nil:
		return "the symlink's target " + err.Error()
	case to == "":
		return "" // the directory itself
	}
	if reason := CheckName(to); reason != "" {
		return "the symlink's target: " + reason
	}
	return ""
}

// CheckReceivedTarget is CheckTarget for a symlink that the sandbox chose and that is to lie beside the
// person's files. It refuses a step up behind a name too: together with a second link, one from that
// name to the top of the directory, it would lead out of it.
func CheckReceivedTarget(path, target string) string {
	reason := CheckTarget(path, target)
	if reason == "" && syncwire.ClimbsBehindName(target) {
		reason = "the symlink's target has a step up behind a name, which may lead outside of the directory"
	}
	return reason
}

// within tells whether path is dir or lies below it; everything lies below "" and ".".
func within(path, dir string) bool {
	return dir == "" || dir == "." || path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// ancestors yields the directories of a path, the topmost first.
func ancestors(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range len(path) {
			if path[i] == '/' && !yield(path[:i]) {
				return
			}
		}
	}
}

// inside is where other lies in dir, as a path of the tree; empty if it does not, or is dir.
func inside(dir, other string) string {
	if resolved, err := filepath.EvalSymlinks(other); err == nil {
		other = resolved
	}
	rel, err := filepath.Rel(dir, other)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return ""
	}
	return filepath.ToSlash(rel)
}
