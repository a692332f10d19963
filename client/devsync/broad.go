// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// mostNamed is how many entries of a directory a BroadError names.
	mostNamed = 6
	// A git repository is looked for so many levels below a directory, in so many directories.
	repositoryDepth = 3
	mostLookedAt    = 2000
)

// BroadError means that a directory holds more than one project: it is /, the home directory of
// the person or a directory above it, or a directory above a git repository. Options.Broad says that
// all of it is meant.
type BroadError struct {
	Dir string
	// Reason says what the directory is, for example "is your home directory".
	Reason string
	// Names has some of what lies in the directory and would be sent, More counts the rest.
	Names []string
	More  int
}

// Error implements error.
func (e *BroadError) Error() string {
	names := strings.Join(e.Names, ", ")
	if e.More > 0 {
		names += fmt.Sprintf(" and %d more", e.More)
	}
	return fmt.Sprintf("%s %s; all of it would be sent: %s", e.Dir, e.Reason, names)
}

// CheckDir returns a *BroadError for a directory that holds more than one project. The mistake that
// it stops: a command that is run one level too high sends all that a person has.
func CheckDir(dir string) error {
	dir, err := resolve(dir)
	if err != nil {
		return err
	}
	reason := broad(dir)
	if reason == "" {
		return nil
	}
	e := &BroadError{Dir: dir, Reason: reason}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	for _, entry := range entries {
		e.Names = append(e.Names, entry.Name())
	}
	if len(e.Names) > mostNamed {
		e.Names, e.More = e.Names[:mostNamed], len(e.Names)-mostNamed
	}
	return e
}

// resolve is the real path of a directory.
func resolve(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	if err != nil {
		return "", fmt.Errorf("opening the directory: %w", err)
	}
	return full, nil
}

// broad says what makes a directory hold more than one project, empty if nothing does.
func broad(dir string) string {
	if filepath.Dir(dir) == dir {
		return "is the root of the file system"
	}
	if home, err := os.UserHomeDir(); err == nil {
		if home, err = resolve(home); err == nil {
			switch {
			case home == dir:
				return "is your home directory"
			case strings.HasPrefix(home, dir+string(filepath.Separator)):
				return "is above your home directory"
			}
		}
	}
	if inRepository(dir) {
		return ""
	}
	looked := 0
	if repository := repositoryBelow(dir, repositoryDepth, &looked); repository != "" {
		return "is above the git repository " + repository
	}
	return ""
}

// inRepository reports whether a directory is a git repository, or lies in one.
func inRepository(dir string) bool {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		above := filepath.Dir(dir)
		if above == dir {
			return false
		}
		dir = above
	}
}

// repositoryBelow returns the path of a git repository below a directory, empty if none is near.
func repositoryBelow(dir string, depth int, looked *int) string {
	entries, err := os.ReadDir(dir)
	if err != nil || *looked >= mostLookedAt {
		return ""
	}
	*looked++
	var below []string
	for _, entry := range entries {
		name := entry.Name()
		if entry.Type() != fs.ModeDir || slices.Contains(excludable, name) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, name, ".git")); err == nil {
			return name
		}
		below = append(below, name)
	}
	if depth == 1 {
		return ""
	}
	for _, name := range below {
		if found := repositoryBelow(filepath.Join(dir, name), depth-1, looked); found != "" {
			return filepath.Join(name, found)
		}
	}
	return ""
}
