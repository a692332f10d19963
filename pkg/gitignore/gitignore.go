// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitignore tells which files of a tree are ignored, by the rules of gitignore(5): a
// file of patterns in any directory, later and deeper ones before earlier and higher ones, and
// nothing below an ignored directory can be included again.
//
// It reads patterns and matches names. It does not touch the file system, and does not know of
// files that git tracks already. What counts less than every file of the tree, such as
// core.excludesFile and .git/info/exclude, is given to AddDefaults. A test compares it with git itself.
package gitignore

import (
	"regexp"
	"strings"
)

// Rules are the patterns of a tree. The zero value ignores nothing. Add is not safe for
// concurrent use; matching is, once nothing is added any more.
type Rules struct {
	// FoldCase ignores the case of ASCII letters, as git does where core.ignoreCase is set. It is set before
	// anything is added.
	FoldCase bool
	// files holds the patterns of each directory; the root is "".
	files map[string][]pattern
	// defaults decide where no file has a pattern that matches.
	defaults []pattern
}

// pattern is one line.
type pattern struct {
	match    *regexp.Regexp
	negated  bool
	dirOnly  bool
	basename bool // matched against the last name alone
}

// Add adds the content of an ignore file that lies in directory dir, slash-separated and
// relative to the root of the tree, "" for the root itself. Files added later to the same
// directory come before those added earlier.
func (r *Rules) Add(dir, content string) {
	if r.files == nil {
		r.files = map[string][]pattern{}
	}
	r.files[dir] = append(r.files[dir], parseAll(content, r.FoldCase)...)
}

// AddDefaults adds patterns, relative to the root, that count less than those of any file, and more
// than defaults that were added earlier.
func (r *Rules) AddDefaults(content string) {
	r.defaults = append(r.defaults, parseAll(content, r.FoldCase)...)
}

func parseAll(content string, fold bool) (patterns []pattern) {
	content = strings.TrimPrefix(content, "\ufeff")
	for line := range strings.SplitSeq(content, "\n") {
		if p, ok := parse(strings.TrimSuffix(line, "\r"), fold); ok {
			patterns = append(patterns, p)
		}
	}
	return patterns
}

// Reset forgets the patterns of a directory, and no defaults.
func (r *Rules) Reset(dir string) { delete(r.files, dir) }

// Empty reports whether no file has a pattern.
func (r *Rules) Empty() bool {
	for _, patterns := range r.files {
		if len(patterns) > 0 {
			return false
		}
	}
	return true
}

// Ignored tells whether a path, slash-separated and relative to the root, is ignored: by a
// pattern, or because a directory above it is. isDir tells whether the path itself is a
// directory; a symlink to one is none.
func (r *Rules) Ignored(path string, isDir bool) bool {
	for i := range len(path) {
		if path[i] == '/' && r.Matches(path[:i], true) {
			return true
		}
	}
	return r.Matches(path, isDir)
}

// Matches is Ignored for a path whose parent is known not to be ignored; for walks.
func (r *Rules) Matches(path string, isDir bool) bool {
	if path == "" {
		return false
	}
	name := path
	if r.FoldCase {
		name = lower(path)
	}
	base := name[strings.LastIndexByte(name, '/')+1:]
	dir := strings.TrimSuffix(path[:len(path)-len(base)], "/")
	for {
		relative := strings.TrimPrefix(name[len(dir):], "/")
		if p := last(r.files[dir], relative, base, isDir); p != nil {
			return !p.negated
		}
		if dir == "" {
			break
		}
		dir = dir[:max(0, strings.LastIndexByte(dir, '/'))]
	}
	p := last(r.defaults, name, base, isDir)
	return p != nil && !p.negated
}

// last is the last pattern that matches, which decides; nil for none.
func last(patterns []pattern, relative, base string, isDir bool) *pattern {
	for n := len(patterns) - 1; n >= 0; n-- {
		if p := &patterns[n]; p.matches(relative, base, isDir) {
			return p
		}
	}
	return nil
}

func (p *pattern) matches(relative, base string, isDir bool) bool {
	if p.dirOnly && !isDir {
		return false
	}
	if p.basename {
		return p.match.MatchString(latin1(base))
	}
	return p.match.MatchString(latin1(relative))
}

// parse reads a line; ok is false when it holds no pattern, or one that can match nothing.
func parse(line string, fold bool) (p pattern, ok bool) {
	line = trimTrailingSpaces(line)
	if line == "" || line[0] == '#' {
		return p, false
	}
	if line[0] == '!' {
		p.negated = true
		line = line[1:]
	}
	if strings.HasSuffix(line, "/") {
		p.dirOnly = true
		line = line[:len(line)-1]
	}
	p.basename = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return p, false
	}
	expression, ok := translate(line, fold)
	if !ok {
		return p, false
	}
	p.match, ok = compile(expression)
	return p, ok
}

func compile(expression string) (*regexp.Regexp, bool) {
	re, err := regexp.Compile(expression)
	return re, err == nil // a pattern beyond regexp's size limit matches nothing
}

// trimTrailingSpaces removes the spaces at the end but for an escaped one.
func trimTrailingSpaces(line string) string {
	end := len(line)
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			if end == len(line) {
				end = i
			}
			continue
		case '\\':
			i++
		}
		end = len(line)
	}
	return line[:end]
}

// lower makes ASCII letters lower case, as git does in the C locale, and keeps every other byte.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = lowerByte(c)
	}
	return string(b)
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// latin1 makes one character of each byte: git's patterns match bytes, package regexp matches
// characters.
func latin1(s string) string {
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < 0x80
	}
	if ascii {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}
