// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package gitignore

import (
	"fmt"
	"regexp"
	"strings"
)

// translate makes a regular expression of a pattern, byte by byte. Regular expressions of
// package regexp take linear time, whatever pattern somebody's project brings. ok is false for a
// pattern that git takes for one that matches nothing. With fold the expression is for names in lower case.
func translate(p string, fold bool) (expression string, ok bool) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(p); {
		switch p[i] {
		case '*':
			i = stars(&b, p, i)
		case '?':
			b.WriteString(`[^/]`)
			i++
		case '[':
			class, next, ok := bracket(p, i, fold)
			if !ok {
				return "", false
			}
			b.WriteString(class)
			i = next
		case '\\':
			if i+1 == len(p) {
				return "", false
			}
			literal(&b, p[i+1], fold)
			i += 2
		default:
			literal(&b, p[i], fold)
			i++
		}
	}
	b.WriteString(`\z`)
	return b.String(), true
}

func literal(b *strings.Builder, c byte, fold bool) {
	if fold {
		c = lowerByte(c)
	}
	b.WriteString(regexp.QuoteMeta(string(rune(c))))
}

// stars translates a run of asterisks at i and returns what is behind it. Two or more that stand
// for whole names match any number of directories; otherwise they are as one. Git compares what
// is in front of the first special character by itself and reads the rest as a pattern of its
// own, so that asterisks behind "a" in "a**/b" stand for whole names as well.
func stars(b *strings.Builder, p string, i int) int {
	end := i
	for end < len(p) && p[end] == '*' {
		end++
	}
	begins := i == strings.IndexAny(p, `*?[\`) || p[i-1] == '/'
	switch {
	case end-i < 2 || !begins || end < len(p) && p[end] != '/':
		b.WriteString(`[^/]*`)
	case end == len(p):
		b.WriteString(`.*`)
	default:
		b.WriteString(`(?:.*/)?`)
		return end + 1
	}
	return end
}

// bracket translates a bracket expression at i and returns what is behind it. It never matches a
// slash. ok is false when it has no end or names a class that does not exist. With fold, ranges and classes of
// capitals have the small letters too; a single capital has not, and so matches nothing, as in git.
func bracket(p string, i int, fold bool) (class string, next int, ok bool) {
	var set [256]bool
	i++
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	for first := true; ; first = false {
		if i >= len(p) {
			return "", 0, false
		}
		if p[i] == ']' && !first {
			break
		}
		if name, behind, found := posixClass(p, i); found {
			member, known := classes[name]
			if !known {
				return "", 0, false
			}
			for c := range 256 {
				add(&set, byte(c), member(byte(c)), fold)
			}
			i = behind
			continue
		}
		from, behind, found := member(p, i)
		if !found {
			return "", 0, false
		}
		to, isRange := from, false
		if i = behind; i+1 < len(p) && p[i] == '-' && p[i+1] != ']' {
			isRange = true
			if to, i, found = member(p, i+1); !found {
				return "", 0, false
			}
		}
		set[from] = true // git compares the first of a range even when the range is empty
		for c := int(from); c <= int(to); c++ {
			add(&set, byte(c), true, fold && isRange)
		}
	}
	return render(set, negated), i + 1, true
}

// add adds a character to a set if it is one of its members, with fold in lower case as well.
func add(set *[256]bool, c byte, isMember, fold bool) {
	set[c] = set[c] || isMember
	if fold && isMember {
		set[lowerByte(c)] = true
	}
}

// member reads one character of a bracket expression.
func member(p string, i int) (c byte, next int, ok bool) {
	if p[i] == '\\' {
		i++
	}
	if i >= len(p) {
		return 0, 0, false
	}
	return p[i], i + 1, true
}

// posixClass reads "[:name:]" at i.
func posixClass(p string, i int) (name string, next int, found bool) {
	if !strings.HasPrefix(p[i:], "[:") {
		return "", 0, false
	}
	end := strings.IndexByte(p[i+2:], ']')
	if end < 1 || p[i+2+end-1] != ':' {
		return "", 0, false
	}
	return p[i+2 : i+2+end-1], i + 2 + end + 1, true
}

func between(pairs string) func(byte) bool {
	return func(c byte) bool {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] <= c && c <= pairs[i+1] {
				return true
			}
		}
		return false
	}
}

// classes are those of POSIX, in the C locale.
var classes = map[string]func(byte) bool{
	"alnum": between("09AZaz"), "alpha": between("AZaz"), "blank": between("  \t\t"), "cntrl": between("\x00\x1f\x7f\x7f"),
	"digit": between("09"), "graph": between("!~"), "lower": between("az"), "print": between(" ~"),
	"punct": between("!/:@[`{~"), "space": between("  \t\r"), "upper": between("AZ"), "xdigit": between("09AFaf"),
}

// render writes a set as a class of package regexp.
func render(set [256]bool, negated bool) string {
	var b strings.Builder
	for c, in := range set {
		if in != negated && c != '/' {
			fmt.Fprintf(&b, `\x{%x}`, c)
		}
	}
	if b.Len() == 0 {
		return `[^\x{0}-\x{10ffff}]`
	}
	return "[" + b.String() + "]"
}
