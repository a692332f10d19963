// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// The attack: a program in the sandbox writes a .gitignore without the line "secret.json", a two-way sync brings it,
// and the next comparison sends secret.json to the sandbox. So what comes from a sandbox may ignore more than what is
// here, and nothing less, until a person brings it with --prefer remote or a copy.

// errLooser is why an ignore file of the sandbox is refused.
var errLooser = errors.New("by it, files that are ignored here would be sent: the rules of a sandbox may ignore more and nothing less; sandbar cp brings the file")

// checkRules refuses a change of an ignore file by which something here would no longer be ignored. temp is where the
// file that comes lies; empty if it is none.
func (e *Engine) checkRules(c change, temp string) error {
	if !isIgnoreFile(c.path) || e.prefer(c.path) == Remotes {
		return nil
	}
	old, err := e.rulesIn(c.path)
	if err != nil {
		return err
	}
	text, err := e.rulesIn(temp)
	if err != nil {
		return err
	}
	if e.local.rules.looser(path.Dir(c.path), old, text) {
		return errLooser
	}
	return nil
}

// rulesIn reads as much of an ignore file in the directory as counts; nothing of anything but a regular file.
func (e *Engine) rulesIn(name string) (string, error) {
	info, err := e.root.Lstat(name)
	if name == "" || errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	f, err := e.root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes)) //nolint:forbidigo // maxIgnoreBytes
	return string(text), err
}

// looser reports whether something might be ignored with the old text of an ignore file in a directory, and not with the
// new one. It says yes where it cannot tell.
func (r *rules) looser(dir, old, text string) bool {
	was, is := patternsOf(old), patternsOf(text)
	at := 0
	for _, line := range is {
		switch {
		case at < len(was) && line == was[at]:
			at++
		case strings.HasPrefix(line, "!") && (len(was) > 0 || r.bringsBack(dir, line[1:])):
			return true
		}
	}
	return at < len(was) // a line is gone
}

// patternsOf are the lines of an ignore file that mean something.
func patternsOf(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#")
	})
}

// bringsBack reports whether a negated pattern in a directory that had no rules may bring back what others ignore.
func (r *rules) bringsBack(dir, pattern string) bool {
	if r.all.Empty() && len(r.above.defaults) <= 1 { // those of editors
		return false
	}
	pattern = strings.TrimSpace(pattern)
	anchored := strings.Contains(strings.TrimSuffix(pattern, "/"), "/")
	if !anchored || strings.ContainsAny(pattern, `*?[\`) {
		return true // it is of any depth, or of many names
	}
	at := path.Join(dir, strings.Trim(pattern, "/"))
	return r.ignored(at, false) || r.ignored(at, true)
}
